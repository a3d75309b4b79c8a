//! The rewrite module's instructions.

use crate::error::Place;
use crate::pattern::Pattern;
use crate::template::Template;
use crate::vars::VarId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewriteFlag {
    None,
    Last,
    Break,
    Redirect(u16),
}

#[derive(Clone, Debug)]
pub enum Cond {
    Var(VarId),
    Equals {
        var: VarId,
        value: Template,
        negate: bool,
    },
    Match {
        var: VarId,
        pattern: Pattern,
        negate: bool,
    },
    File {
        path: Template,
        test: FileTest,
        negate: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileTest {
    File,
    Dir,
    Exists,
    Executable,
}

#[derive(Clone, Debug)]
pub enum Op {
    Set {
        var: VarId,
        value: Template,
    },
    Rewrite {
        pattern: Pattern,
        replacement: Template,
        flag: RewriteFlag,
        add_args: bool,
        place: Place,
    },
    Return {
        status: u16,
        text: Option<Template>,
    },
    Break,
    /// `conf` is the index of the location's own `if` settings; `None` in a server block's `if`.
    If {
        cond: Cond,
        ops: Vec<Op>,
        conf: Option<usize>,
    },
    /// For directives such as `valid_referers`, whose inputs are stored in the location.
    Nop,
}
