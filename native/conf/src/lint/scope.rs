//! A block with the blocks around it.

use crate::parser::Directive;
use hashbrown::{HashMap, HashSet};

/// Information about the whole http block.
pub struct Facts<'a> {
    /// The names of upstream groups.
    pub groups: HashSet<&'a str>,
    /// The values that `set` and `map` give to variables, by name including `$`.
    pub values: HashMap<&'a str, Vec<&'a str>>,
}

impl<'a> Facts<'a> {
    pub fn new(http: &'a [Directive]) -> Facts<'a> {
        let mut facts = Facts {
            groups: HashSet::new(),
            values: HashMap::new(),
        };
        facts.gather(http);
        facts
    }

    fn gather(&mut self, items: &'a [Directive]) {
        for d in items {
            let block = d.block.as_deref().unwrap_or(&[]);
            match (d.name(), d.args()) {
                ("upstream", [name]) => _ = self.groups.insert(name),
                ("set", [name, value]) => self.values.entry(name).or_default().push(value),
                ("map", [_, name]) => {
                    let pairs = block.iter().filter_map(|p| p.args().first());
                    let values = self.values.entry(name).or_default();
                    values.extend(pairs.map(String::as_str));
                }
                _ => self.gather(block),
            }
        }
    }
}

/// A block as a check sees it.
pub struct Scope<'a> {
    pub block: &'a Directive,
    pub outer: Option<&'a Scope<'a>>,
    pub facts: &'a Facts<'a>,
}

impl<'a> Scope<'a> {
    pub fn top(block: &'a Directive, facts: &'a Facts<'a>) -> Scope<'a> {
        Scope {
            block,
            outer: None,
            facts,
        }
    }

    pub fn items(&self) -> &'a [Directive] {
        self.block.block.as_deref().unwrap_or(&[])
    }

    /// This block's own directives with a name.
    pub fn own(&self, name: &'a str) -> impl Iterator<Item = &'a Directive> + 'a {
        self.items().iter().filter(move |d| d.name() == name)
    }

    pub fn has(&self, names: &[&str]) -> bool {
        self.items().iter().any(|d| names.contains(&d.name()))
    }

    /// The nested blocks with these names, as scopes.
    pub fn blocks<'b>(&'b self, names: &'b [&str]) -> impl Iterator<Item = Scope<'b>> + 'b {
        let inner = self
            .items()
            .iter()
            .filter(move |d| d.block.is_some() && names.contains(&d.name()));
        inner.map(move |block| Scope {
            block,
            outer: Some(self),
            facts: self.facts,
        })
    }

    /// This block and the blocks around it, innermost first.
    pub fn chain(&'a self) -> impl Iterator<Item = &'a Scope<'a>> + 'a {
        std::iter::successors(Some(self), |scope| scope.outer)
    }

    /// Whether one of these directives applies here, set or inherited.
    pub fn inherits(&self, names: &[&str]) -> bool {
        self.chain().any(|scope| scope.has(names))
    }

    pub fn is(&self, name: &str) -> bool {
        self.block.name() == name
    }

    /// The modifier and name of a location.
    pub fn location(&self) -> Option<(&'a str, &'a str)> {
        let words = self.block.args();
        match (self.is("location"), words) {
            (true, [name]) => {
                let name = name.as_str();
                let glued = ["^~", "~*", "~", "="]
                    .into_iter()
                    .find_map(|m| name.strip_prefix(m).map(|rest| (m, rest)));
                Some(glued.unwrap_or(("", name)))
            }
            (true, [modifier, name]) => Some((modifier, name)),
            _ => None,
        }
    }

    /// The name of a prefix location.
    pub fn prefix(&self) -> Option<&'a str> {
        let (modifier, name) = self.location()?;
        (matches!(modifier, "" | "^~") && !name.starts_with('@')).then_some(name)
    }

    /// The regular expression of a location.
    pub fn regex(&self) -> Option<&'a str> {
        let (modifier, name) = self.location()?;
        modifier.starts_with('~').then_some(name)
    }
}

/// The place of a directive, for messages about another one.
pub fn place(d: &Directive) -> String {
    format!("{}:{}", d.place.file, d.place.line)
}

/// The distinct names in their order, separated by commas.
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut seen = Vec::new();
    for name in names {
        if !seen.contains(&name) {
            seen.push(name);
        }
    }
    seen.join(", ")
}
