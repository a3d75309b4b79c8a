//! Dates in the formats of HTTP and of logs.

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// A civil date and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Civil {
    pub year: i64,
    /// The month, starting with 0.
    pub month: usize,
    pub day: u32,
    pub hour: u32,
    pub minute: u32,
    pub second: u32,
    /// The weekday, where Thursday is 0.
    weekday: usize,
}

/// Split seconds since 1970 (Howard Hinnant's days-to-civil algorithm).
pub fn civil(unix: i64) -> Civil {
    let (days, secs) = (unix.div_euclid(86_400), unix.rem_euclid(86_400));
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 2 } else { mp - 10 };
    Civil {
        year: yoe + era * 400 + i64::from(month < 2),
        month: month as usize,
        day: (doy - (153 * mp + 2) / 5 + 1) as u32,
        hour: (secs / 3600) as u32,
        minute: (secs / 60 % 60) as u32,
        second: (secs % 60) as u32,
        weekday: days.rem_euclid(7) as usize,
    }
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let doy = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
pub fn http_date(unix: i64) -> String {
    let c = civil(unix);
    format!(
        "{}, {:02} {} {:04} {:02}:{:02}:{:02} GMT",
        DAYS[c.weekday], c.day, MONTHS[c.month], c.year, c.hour, c.minute, c.second
    )
}

/// `Sun, 06-Nov-94 08:49:37 GMT`, for cookies. Old browsers do not understand four digits of a
/// year, nor two of one after 2037.
pub fn cookie_date(unix: i64) -> String {
    let c = civil(unix);
    let year = match c.year {
        2038.. => format!("{:04}", c.year),
        year => format!("{:02}", year.rem_euclid(100)),
    };
    format!(
        "{}, {:02}-{}-{year} {:02}:{:02}:{:02} GMT",
        DAYS[c.weekday], c.day, MONTHS[c.month], c.hour, c.minute, c.second
    )
}

const LONG_DAYS: [&str; 7] = [
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
];
const LONG_MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Format a date as strftime(3) does in the C locale; `offset`: seconds that the zone is ahead of
/// UTC, `None` for GMT. `%s` is seconds since 1970.
pub fn strftime(format: &str, unix: i64, offset: Option<i64>) -> String {
    if format == "%s" {
        return unix.to_string();
    }
    let c = civil(unix + offset.unwrap_or(0));
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(ch) = chars.next() {
        match (ch, ch == '%') {
            (_, true) => match chars.next() {
                Some(conversion) => out.push_str(&converted(conversion, &c, unix, offset)),
                None => out.push('%'),
            },
            (ch, false) => out.push(ch),
        }
    }
    out
}

fn converted(conversion: char, c: &Civil, unix: i64, offset: Option<i64>) -> String {
    let hour12 = (c.hour + 11) % 12 + 1;
    let again = |format: &str| strftime(format, unix, offset);
    match conversion {
        'a' => DAYS[c.weekday].into(),
        'A' => LONG_DAYS[c.weekday].into(),
        'b' | 'h' => MONTHS[c.month].into(),
        'B' => LONG_MONTHS[c.month].into(),
        'c' => again("%a %b %e %H:%M:%S %Y"),
        'd' => format!("{:02}", c.day),
        'D' | 'x' => again("%m/%d/%y"),
        'e' => format!("{:2}", c.day),
        'F' => again("%Y-%m-%d"),
        'H' => format!("{:02}", c.hour),
        'I' => format!("{hour12:02}"),
        'j' => {
            let new_year = days_from_civil(c.year, 1, 1);
            let today = days_from_civil(c.year, c.month as i64 + 1, c.day.into());
            format!("{:03}", today - new_year + 1)
        }
        'm' => format!("{:02}", c.month + 1),
        'M' => format!("{:02}", c.minute),
        'n' => "\n".into(),
        'p' => if c.hour < 12 { "AM" } else { "PM" }.into(),
        'r' => again("%I:%M:%S %p"),
        'R' => again("%H:%M"),
        's' => unix.to_string(),
        'S' => format!("{:02}", c.second),
        't' => "\t".into(),
        'T' | 'X' => again("%H:%M:%S"),
        'y' => format!("{:02}", c.year.rem_euclid(100)),
        'Y' => c.year.to_string(),
        'z' => zone_text(offset.unwrap_or(0), false),
        'Z' => offset.map_or("GMT".into(), |o| zone_text(o, false)),
        '%' => "%".into(),
        other => format!("%{other}"),
    }
}

/// Parse the three formats of RFC 9110, section 5.6.7; `None` for any other text.
pub fn parse_http_date(text: &[u8]) -> Option<i64> {
    if let Some(unix) = parse_fixed(text) {
        return Some(unix);
    }
    let text = std::str::from_utf8(text).ok()?.trim();
    let rest = match text.split_once(',') {
        Some((_, rest)) => rest.trim_start(),
        None => return parse_asctime(text),
    };
    let mut words = rest.split([' ', '-']).filter(|w| !w.is_empty());
    let day = number(words.next().filter(|day| day.len() == 2)?)?;
    let month = month(words.next()?)?;
    let year_word = words.next()?;
    let mut year = number(year_word)?;
    if year_word.len() == 2 {
        year += if year < 70 { 2000 } else { 1900 };
    }
    assemble(year, month, day, words.next()?)
}

/// Parse the preferred format strictly; `None` for any other text.
fn parse_fixed(text: &[u8]) -> Option<i64> {
    let text = <&[u8; 29]>::try_from(text).ok()?;
    let [a, b, c, b',', b' ', .., b' ', b'G', b'M', b'T'] = text else {
        return None;
    };
    let is_day = [a, b, c].iter().all(|c| c.is_ascii_alphabetic());
    let marks = [text[7], text[11], text[16], text[19], text[22]];
    if !is_day || &marks != b"   ::" {
        return None;
    }
    let two = |at: usize| {
        let digits = [text[at].wrapping_sub(b'0'), text[at + 1].wrapping_sub(b'0')];
        let [tens, ones] = digits.map(i64::from);
        (tens < 10 && ones < 10).then_some(tens * 10 + ones)
    };
    let letters = [text[8], text[9], text[10]];
    let month = MONTHS.iter().position(|m| letters == *m.as_bytes())?;
    let year = two(12)? * 100 + two(14)?;
    let time = [two(17)?, two(20)?, two(23)?];
    unix(year, month as i64 + 1, two(5)?, time)
}

fn parse_asctime(text: &str) -> Option<i64> {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let [_, month_word, day, time, year] = words.as_slice() else {
        return None;
    };
    assemble(number(year)?, month(month_word)?, number(day)?, time)
}

fn number(word: &str) -> Option<i64> {
    if !word.bytes().all(|c| c.is_ascii_digit()) || word.len() > 4 {
        return None;
    }
    word.parse().ok()
}

fn month(word: &str) -> Option<i64> {
    MONTHS.iter().position(|m| *m == word).map(|i| i as i64 + 1)
}

fn assemble(year: i64, month: i64, day: i64, time: &str) -> Option<i64> {
    let mut parts = time.split(':').map(number);
    unix(
        year,
        month,
        day,
        [parts.next()??, parts.next()??, parts.next()??],
    )
}

fn unix(year: i64, month: i64, day: i64, [h, m, s]: [i64; 3]) -> Option<i64> {
    if !(1..=31).contains(&day) || h > 23 || m > 59 || s > 60 || year < 1970 {
        return None;
    }
    Some(days_from_civil(year, month, day) * 86_400 + h * 3600 + m * 60 + s)
}

/// Seconds that the host's time zone is ahead of UTC at a time.
pub fn zone_offset(unix: i64) -> i64 {
    // SAFETY: an all-zero tm is valid, and the call overwrites it.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    let t = unix as libc::time_t;
    // SAFETY: both pointers are valid during the call.
    unsafe {
        libc::localtime_r(&t, &mut tm);
    }
    tm.tm_gmtoff
}

fn zone_text(offset: i64, colon: bool) -> String {
    let minutes = offset.abs() / 60;
    let sign = if offset < 0 { '-' } else { '+' };
    let colon = if colon { ":" } else { "" };
    format!("{sign}{:02}{colon}{:02}", minutes / 60, minutes % 60)
}

/// `$time_local`: `06/Nov/1994:08:49:37 +0000`
pub fn log_date(unix: i64, offset: i64) -> String {
    let c = civil(unix + offset);
    format!(
        "{:02}/{}/{}:{:02}:{:02}:{:02} {}",
        c.day,
        MONTHS[c.month],
        c.year,
        c.hour,
        c.minute,
        c.second,
        zone_text(offset, false)
    )
}

/// `$time_iso8601`
pub fn iso_date(unix: i64, offset: i64) -> String {
    let c = civil(unix + offset);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}{}",
        c.year,
        c.month + 1,
        c.day,
        c.hour,
        c.minute,
        c.second,
        zone_text(offset, true)
    )
}

/// The error log's date: `1994/11/06 08:49:37`
pub fn error_date(unix: i64, offset: i64) -> String {
    let c = civil(unix + offset);
    format!(
        "{:04}/{:02}/{:02} {:02}:{:02}:{:02}",
        c.year,
        c.month + 1,
        c.day,
        c.hour,
        c.minute,
        c.second
    )
}

/// The listing's date: `06-Nov-1994 08:49`
pub fn listing_date(unix: i64) -> String {
    let c = civil(unix);
    format!(
        "{:02}-{}-{:04} {:02}:{:02}",
        c.day, MONTHS[c.month], c.year, c.hour, c.minute
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_written_as_strftime_does() {
        let at = 784_111_777; // Sun, 06 Nov 1994 08:49:37 GMT
        let gmt = |f: &str| strftime(f, at, None);
        assert_eq!(
            gmt("%A, %d-%b-%Y %H:%M:%S %Z"),
            "Sunday, 06-Nov-1994 08:49:37 GMT"
        );
        assert_eq!(
            gmt("%D %r %j %e %y %% %q"),
            "11/06/94 08:49:37 AM 310  6 94 % %q"
        );
        assert_eq!(strftime("%H:%M %z", at, Some(7200)), "10:49 +0200");
        assert_eq!(gmt("%s"), "784111777");
    }

    #[test]
    fn the_date_of_the_rfc() {
        assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            assert_eq!(
                parse_http_date(text.as_bytes()),
                Some(784_111_777),
                "{text}"
            );
        }
        assert_eq!(parse_http_date(b"yesterday"), None);
        assert_eq!(log_date(784_111_777, 3600), "06/Nov/1994:09:49:37 +0100");
        assert_eq!(iso_date(784_111_777, -5400), "1994-11-06T07:19:37-01:30");
    }

    #[test]
    fn near_misses_of_the_preferred_form_are_no_dates() {
        let good = "Sun, 06 Nov 1994 08:49:37 GMT";
        for (at, wrong) in [
            (5, "x6"),
            (8, "nov"),
            (12, "19x4"),
            (17, "24"),
            (20, "60"),
            (23, "61"),
            (12, "1969"),
            (5, "32"),
            (19, "."),
        ] {
            let mut text = good.to_owned();
            text.replace_range(at..at + wrong.len(), wrong);
            assert_eq!(parse_http_date(text.as_bytes()), None, "{text}");
        }
        // Other servers are lenient here too.
        assert_eq!(
            parse_http_date(b"Xyz, 06 Nov 1994 08:49:37 UTC"),
            Some(784_111_777)
        );
    }

    #[test]
    fn every_day_survives_the_round_trip() {
        for day in (0..60_000).step_by(17) {
            let unix = day * 86_400 + 3661;
            assert_eq!(parse_http_date(http_date(unix).as_bytes()), Some(unix));
        }
    }
}
