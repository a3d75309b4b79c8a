//! Choosing a location: exact, longest prefix, and regular expressions in order.

use crate::model::{LocKind, Location};
use crate::pattern::{Groups, Pattern};
use hashbrown::HashMap;
use std::sync::Arc;

/// The locations of one level.
#[derive(Debug, Default)]
pub struct LocTree {
    exact: HashMap<Box<str>, Arc<Location>>,
    /// Sorted by name.
    prefixes: Vec<PrefixEntry>,
    regexes: Vec<(Pattern, Arc<Location>)>,
    named: HashMap<Box<str>, Arc<Location>>,
    /// Locations with an automatic redirect, by their name without the final slash.
    slashless: HashMap<Box<[u8]>, Arc<Location>>,
}

#[derive(Debug)]
struct PrefixEntry {
    name: Box<str>,
    location: Arc<Location>,
    /// The longest other entry whose name is a prefix of this one.
    parent: Option<usize>,
}

/// The result of a level and its nested levels; a regular expression of an outer level may override
/// a prefix.
enum Outcome<'a> {
    Final(Found<'a>),
    Prefix(&'a Arc<Location>),
    None,
}

/// The result of one level.
enum Step<'a> {
    Exact(&'a Arc<Location>),
    /// The request was for `/name`, and `/name/` redirects there.
    Redirect(&'a Arc<Location>),
    Prefix(&'a Arc<Location>),
    None,
}

/// The regular expressions that matched on the way to a location.
#[derive(Default)]
pub struct Matched<'a> {
    /// Expressions with groups, outermost first.
    pub with_groups: Vec<(&'a Pattern, Groups)>,
    /// Whether the last expression had no groups, so that `$1` and similar are empty.
    pub ends_plain: bool,
}

/// The chosen location.
pub enum Found<'a> {
    Location {
        location: &'a Arc<Location>,
        matched: Matched<'a>,
    },
    /// Redirect to this location's name.
    AutoRedirect(&'a Arc<Location>),
    None,
}

impl LocTree {
    /// Build the tree from locations in their order in the file.
    pub fn build(locations: Vec<Arc<Location>>) -> LocTree {
        let mut tree = LocTree::default();
        for location in locations {
            let name: Box<str> = location.name.as_str().into();
            if let (true, Some(short)) = (location.auto_redirect, name.strip_suffix('/')) {
                tree.slashless
                    .insert(short.as_bytes().into(), location.clone());
            }
            match &location.kind {
                LocKind::Exact => {
                    tree.exact.insert(name, location);
                }
                LocKind::Prefix { .. } => {
                    tree.prefixes.push(PrefixEntry {
                        name,
                        location,
                        parent: None,
                    });
                }
                LocKind::Regex(p) => tree.regexes.push((p.clone(), location.clone())),
                LocKind::Named => {
                    tree.named.insert(name, location);
                }
                LocKind::Server | LocKind::Nameless => {}
            }
        }
        for location in tree.slashless.values_mut() {
            // An exact location beside a prefix with the same name provides the settings of the
            // redirect.
            if let Some(exact) = tree.exact.get(location.name.as_str()) {
                *location = exact.clone();
            }
        }
        tree.prefixes.sort_by(|a, b| a.name.cmp(&b.name));
        for i in 1..tree.prefixes.len() {
            let mut candidate = Some(i - 1);
            while let Some(c) = candidate {
                if tree.prefixes[i].name.starts_with(&*tree.prefixes[c].name) {
                    break;
                }
                candidate = tree.prefixes[c].parent;
            }
            tree.prefixes[i].parent = candidate;
        }
        tree
    }

    pub fn named(&self, name: &str) -> Option<&Arc<Location>> {
        self.named.get(name)
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Location>> {
        let plain = self
            .exact
            .values()
            .chain(self.prefixes.iter().map(|e| &e.location));
        plain
            .chain(self.regexes.iter().map(|(_, l)| l))
            .chain(self.named.values())
    }

    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.prefixes.is_empty() && self.regexes.is_empty()
    }

    /// The location for a decoded URI.
    pub fn choose<'a>(&'a self, uri: &[u8]) -> Found<'a> {
        match self.descend(uri) {
            Outcome::Final(found) => found,
            Outcome::Prefix(location) => Found::Location {
                location,
                matched: Matched::default(),
            },
            Outcome::None => Found::None,
        }
    }

    fn descend<'a>(&'a self, uri: &[u8]) -> Outcome<'a> {
        let outer = match self.step(uri) {
            Step::Exact(location) => {
                return Outcome::Final(Found::Location {
                    location,
                    matched: Matched::default(),
                });
            }
            Step::Redirect(location) => return Outcome::Final(Found::AutoRedirect(location)),
            Step::Prefix(location) => Some(location),
            Step::None => None,
        };
        let mut best = Outcome::None;
        if let Some(location) = outer {
            best = match location.children.descend(uri) {
                done @ Outcome::Final(_) => return done,
                Outcome::Prefix(inner) => Outcome::Prefix(inner),
                Outcome::None => Outcome::Prefix(location),
            };
            if matches!(location.kind, LocKind::Prefix { no_regex: true }) {
                return best;
            }
        }
        self.regex(uri).map_or(best, Outcome::Final)
    }

    fn regex<'a>(&'a self, uri: &[u8]) -> Option<Found<'a>> {
        for (pattern, location) in &self.regexes {
            let mut matched = Matched::default();
            if pattern.has_groups() {
                let Some(groups) = pattern.captures(uri) else {
                    continue;
                };
                matched.with_groups.push((pattern, groups));
            } else if pattern.is_match(uri) {
                matched.ends_plain = true;
            } else {
                continue;
            }
            return Some(match location.children.choose(uri) {
                Found::None => Found::Location { location, matched },
                Found::Location {
                    location,
                    matched: inner,
                } => {
                    matched.ends_plain =
                        inner.ends_plain || matched.ends_plain && inner.with_groups.is_empty();
                    matched.with_groups.extend(inner.with_groups);
                    Found::Location { location, matched }
                }
                redirect => redirect,
            });
        }
        None
    }

    fn step(&self, uri: &[u8]) -> Step<'_> {
        if !self.exact.is_empty() {
            if let Some(l) = std::str::from_utf8(uri)
                .ok()
                .and_then(|u| self.exact.get(u))
            {
                return Step::Exact(l);
            }
        }
        let after = self.prefixes.partition_point(|e| e.name.as_bytes() <= uri);
        let equal = after > 0 && self.prefixes[after - 1].name.as_bytes() == uri;
        if !equal && !self.slashless.is_empty() {
            if let Some(l) = self.slashless.get(uri) {
                return Step::Redirect(l);
            }
        }
        let mut candidate = after.checked_sub(1);
        while let Some(c) = candidate {
            if uri.starts_with(self.prefixes[c].name.as_bytes()) {
                return Step::Prefix(&self.prefixes[c].location);
            }
            candidate = self.prefixes[c].parent;
        }
        Step::None
    }
}
