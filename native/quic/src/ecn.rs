//! Explicit congestion notification (RFC 9000, section 13.4): networks mark packets instead of
//! dropping them. A sender first verifies that the path preserves marks.

/// The number of ack-eliciting packets that are marked on a path before its support is known.
const TESTED: u32 = 10;

/// The ECN field of the IP header (RFC 3168, section 5), as its two bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// ECN is not supported.
    #[default]
    None = 0,
    /// ECN-capable transport, code point 1.
    Ect1 = 1,
    /// ECN-capable transport, code point 0.
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

impl Ecn {
    /// The ECN bits of IPv4's type of service or IPv6's traffic class.
    #[inline]
    pub fn of(byte: u8) -> Self {
        match byte & 3 {
            0 => Self::None,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// Received packets by mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub ect0: u64,
    pub ect1: u64,
    pub ce: u64,
}

impl Counts {
    /// Count a packet.
    #[inline]
    pub fn add(&mut self, ecn: Ecn) {
        match ecn {
            Ecn::None => {}
            Ecn::Ect0 => self.ect0 += 1,
            Ecn::Ect1 => self.ect1 += 1,
            Ecn::Ce => self.ce += 1,
        }
    }

    /// Whether any mark was received, so that acknowledgments include the counts.
    #[inline]
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

/// The marked packets of a space, according to the client's reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marked {
    /// The number of packets sent with a mark.
    pub sent: u64,
    told: Counts,
}

/// The result of an acknowledgment for marked packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Nothing.
    Nothing,
    /// Marks arrive; `ce`: some were changed to "congestion experienced".
    Arrive { ce: bool },
    /// Marks are lost or forged on the path, or the client does not report them.
    Broken,
}

impl Marked {
    /// Evaluate the counts of an acknowledgment that raised the largest acknowledged packet;
    /// `newly`: the number of marked packets that it acknowledges for the first time (RFC 9000,
    /// section 13.4.2.1).
    #[inline]
    pub fn judge(&mut self, counts: Option<Counts>, newly: u64) -> Report {
        let Some(counts) = counts else {
            return match newly {
                0 => Report::Nothing,
                _ => Report::Broken,
            };
        };
        let told = std::mem::replace(&mut self.told, counts);
        let (Some(ect0), Some(ce)) = (
            counts.ect0.checked_sub(told.ect0),
            counts.ce.checked_sub(told.ce),
        ) else {
            return Report::Broken;
        };
        // We never send ECT(1).
        let made_up = counts.ect1 > 0 || counts.ect0.saturating_add(counts.ce) > self.sent;
        match newly {
            _ if made_up || ect0.saturating_add(ce) < newly => Report::Broken,
            0 if ce == 0 => Report::Nothing,
            _ => Report::Arrive { ce: ce > 0 },
        }
    }
}

/// The state of a path's ECN validation (RFC 9000, appendix A.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The first packets are marked.
    Testing,
    /// Marking pauses, since the fate of the first packets is unknown.
    Unknown,
    /// Packets are marked, and marks arrive.
    Capable,
    /// Marking has stopped.
    Failed,
}

/// The ECN marking of a path's packets.
#[derive(Clone, Copy, Debug)]
pub struct Marking {
    state: State,
    /// The first packets: the number sent, and the number lost.
    tested: u32,
    lost: u32,
}

impl Marking {
    /// The state for a new path; `false`: the socket cannot mark.
    pub fn new(possible: bool) -> Self {
        let state = if possible {
            State::Testing
        } else {
            State::Failed
        };
        Self {
            state,
            tested: 0,
            lost: 0,
        }
    }

    /// Whether to mark a packet.
    #[inline]
    pub fn is_on(&self) -> bool {
        matches!(self.state, State::Testing | State::Capable)
    }

    /// Record a sent ack-eliciting packet with a mark.
    #[inline]
    pub fn sent(&mut self) {
        if self.state == State::Testing {
            self.tested += 1;
            if self.tested >= TESTED {
                self.state = State::Unknown;
            }
        }
    }

    /// Pause after a long time without acknowledgments: marks may be the reason, so unmarked
    /// packets are sent now.
    pub fn pause(&mut self) {
        if self.state == State::Testing {
            self.state = State::Unknown;
        }
    }

    /// Record lost packets with marks.
    #[inline]
    pub fn lost(&mut self, count: u64) {
        if matches!(self.state, State::Testing | State::Unknown) {
            self.lost = self
                .lost
                .saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
            if self.state == State::Unknown && self.lost >= self.tested {
                self.state = State::Failed;
            }
        }
    }

    /// Handle the result of an acknowledgment.
    #[inline]
    pub fn reported(&mut self, report: Report) {
        match report {
            Report::Nothing => {}
            Report::Broken => self.state = State::Failed,
            Report::Arrive { .. } if self.state != State::Failed => self.state = State::Capable,
            Report::Arrive { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(ect0: u64, ect1: u64, ce: u64) -> Option<Counts> {
        Some(Counts { ect0, ect1, ce })
    }

    fn marked(sent: u64) -> Marked {
        Marked {
            sent,
            ..Marked::default()
        }
    }

    #[test]
    fn counts_that_add_up_are_believed() {
        let mut marked = marked(10);
        assert_eq!(marked.judge(None, 0), Report::Nothing);
        assert_eq!(
            marked.judge(counts(3, 0, 0), 3),
            Report::Arrive { ce: false }
        );
        // The counts also include packets whose acknowledgment was lost.
        assert_eq!(
            marked.judge(counts(6, 0, 1), 2),
            Report::Arrive { ce: true }
        );
        assert_eq!(marked.judge(counts(6, 0, 1), 0), Report::Nothing);
    }

    #[test]
    fn counts_that_do_not_add_up_are_not() {
        for (said, newly) in [
            (None, 1),
            (counts(2, 0, 0), 3),
            (counts(3, 1, 0), 3),
            (counts(11, 0, 0), 3),
            (counts(8, 0, 3), 3),
            (counts(u64::MAX, 0, u64::MAX), 3),
        ] {
            assert_eq!(marked(10).judge(said, newly), Report::Broken, "{said:?}");
        }
        let mut marked = marked(10);
        assert_eq!(
            marked.judge(counts(5, 0, 1), 5),
            Report::Arrive { ce: true }
        );
        assert_eq!(marked.judge(counts(6, 0, 0), 1), Report::Broken);
    }

    #[test]
    fn a_path_is_marked_at_first_and_again_when_marks_arrive() {
        let mut marking = Marking::new(true);
        for _ in 0..TESTED {
            assert!(marking.is_on());
            marking.sent();
        }
        assert!(!marking.is_on());
        marking.reported(Report::Nothing);
        assert!(!marking.is_on());
        marking.reported(Report::Arrive { ce: false });
        marking.pause();
        marking.lost(100);
        assert!(marking.is_on());
        marking.reported(Report::Broken);
        marking.reported(Report::Arrive { ce: false });
        assert!(!marking.is_on());
        assert!(!Marking::new(false).is_on());
    }

    #[test]
    fn a_path_that_swallows_marked_packets_is_not_marked_again() {
        let mut marking = Marking::new(true);
        (0..3).for_each(|_| marking.sent());
        marking.lost(2);
        assert!(marking.is_on(), "not all of them");
        marking.pause();
        assert!(!marking.is_on());
        marking.lost(1);
        marking.reported(Report::Arrive { ce: false });
        assert!(!marking.is_on());
    }

    #[test]
    fn marks_are_two_bits_and_counted() {
        let mut counts = Counts::default();
        for byte in [0, 2, 0xb8 | 2, 1, 3, 0xb8] {
            counts.add(Ecn::of(byte));
        }
        let wanted = Counts {
            ect0: 2,
            ect1: 1,
            ce: 1,
        };
        assert!(counts == wanted && counts.any() && !Counts::default().any());
    }
}
