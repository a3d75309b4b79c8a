//! nginx's command line.

use std::path::{Path, PathBuf};

/// The folder and files that apply without options on the command line.
const PREFIX: &str = "/etc/gallop/";
const CONF: &str = "nginx.conf";
const ERROR_LOG: &str = "/var/log/gallop/error.log";
pub const PID: &str = "/run/gallop.pid";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    Stop,
    Quit,
    Reload,
    Reopen,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    pub help: bool,
    pub version: bool,
    pub long_version: bool,
    pub test: bool,
    pub dump: bool,
    pub quiet: bool,
    pub signal: Option<Signal>,
    prefix: Option<String>,
    conf: Option<String>,
    error_log: Option<String>,
    pub globals: String,
}

impl Options {
    pub fn prefix(&self) -> PathBuf {
        let path = PathBuf::from(self.prefix.as_deref().unwrap_or(PREFIX));
        std::path::absolute(&path).unwrap_or(path)
    }

    pub fn conf(&self) -> PathBuf {
        self.prefix().join(self.conf.as_deref().unwrap_or(CONF))
    }

    /// The error log in use until the configuration names one. `None` means standard error.
    pub fn error_log(&self) -> Option<PathBuf> {
        match self.error_log.as_deref() {
            Some("stderr") => None,
            Some(name) => Some(self.prefix().join(name)),
            None => Some(Path::new(ERROR_LOG).to_path_buf()),
        }
    }
}

/// Parse the command line as nginx does: flags can be combined (`-tq`), and a value can follow its
/// flag directly (`-cfile`).
pub fn parse(args: &[String]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let Some(letters) = arg.strip_prefix('-') else {
            return Err(format!("invalid option: \"{arg}\""));
        };
        let mut rest = letters;
        while let Some(letter) = rest.chars().next() {
            rest = &rest[letter.len_utf8()..];
            if flag(&mut options, letter) {
                continue;
            }
            let what = match letter {
                'p' => "directory name",
                'c' | 'e' => "file name",
                'g' | 's' => "parameter",
                _ => return Err(format!("invalid option: \"{letter}\"")),
            };
            let value = if rest.is_empty() {
                args.next()
                    .cloned()
                    .ok_or_else(|| format!("option \"-{letter}\" requires {what}"))?
            } else {
                rest.to_string()
            };
            set(&mut options, letter, value)?;
            rest = "";
        }
    }
    Ok(options)
}

fn flag(options: &mut Options, letter: char) -> bool {
    match letter {
        '?' | 'h' => {
            options.help = true;
            options.version = true;
        }
        'v' => options.version = true,
        'V' => options.long_version = true,
        't' => options.test = true,
        'T' => {
            options.test = true;
            options.dump = true;
        }
        'q' => options.quiet = true,
        _ => return false,
    }
    true
}

fn set(options: &mut Options, letter: char, value: String) -> Result<(), String> {
    match letter {
        'p' => options.prefix = Some(value),
        'c' => options.conf = Some(value),
        'e' => options.error_log = Some(value),
        'g' => options.globals = value,
        _ => {
            options.signal = Some(match value.as_str() {
                "stop" => Signal::Stop,
                "quit" => Signal::Quit,
                "reload" => Signal::Reload,
                "reopen" => Signal::Reopen,
                other => return Err(format!("invalid option: \"-s {other}\"")),
            });
        }
    }
    Ok(())
}

pub const HELP: &str = "Usage: gallop [-?hvVtTq] [-s signal] [-p prefix]
              [-e filename] [-c filename] [-g directives]

Options:
  -?,-h         : this help
  -v            : show version and exit
  -V            : show version and configure options then exit
  -t            : test configuration and exit
  -T            : test configuration, dump it and exit
  -q            : suppress non-error messages during configuration testing
  -s signal     : send signal to a master process: stop, quit, reopen, reload
  -p prefix     : set prefix path (default: /etc/gallop/)
  -e filename   : set error log file (default: /var/log/gallop/error.log)
  -c filename   : set configuration file (default: nginx.conf)
  -g directives : set global directives out of configuration file
";

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<Options, String> {
        parse(&text.split(' ').map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn letters_and_values() {
        let o = options("-tq -p /x/ -cfoo.conf -s reload").expect("valid");
        assert!(o.test && o.quiet);
        assert_eq!(o.conf(), Path::new("/x/foo.conf"));
        assert_eq!(o.signal, Some(Signal::Reload));
        assert_eq!(
            options("-s nope"),
            Err("invalid option: \"-s nope\"".into())
        );
        assert_eq!(
            options("-p"),
            Err("option \"-p\" requires directory name".into())
        );
        assert_eq!(options("x"), Err("invalid option: \"x\"".into()));
        assert_eq!(options("-z"), Err("invalid option: \"z\"".into()));
    }
}
