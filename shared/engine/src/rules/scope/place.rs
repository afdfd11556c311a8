//! A text of a call as a path.

use crate::rules::host::{host, is_address};
use crate::rules::names::kind_of_text;
use crate::rules::reading::{Reading, lower, normal, readings};
use crate::rules::{MatcherKind, Pattern};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// Longest ending of a file's name, in bytes, by which a word is taken for one.
const MOST_ENDING: usize = 5;

/// Where texts lead by links. An empty path stands for one that cannot be decided.
pub(super) type Links<'a> = BTreeMap<&'a str, &'a str>;

/// What is known of a text from the name of its argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// It is a path.
    Path,
    /// It may be one.
    Maybe,
    /// It is plain text.
    Prose,
    /// It is a word of a longer text, such as a command. Only rules that deny or ask look at it.
    Word,
}

/// A text of a call as a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    role: Role,
    ways: Vec<Way>,
    /// All ways to read it are known.
    is_known: bool,
    /// There is one.
    is_single: bool,
    address: Address,
}

/// Whether a text is an address.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Address {
    /// It is none that names a host.
    None,
    /// Readers differ about its host.
    Unclear,
    /// It has this host.
    Of(String),
}

impl Address {
    fn read(text: &str) -> Self {
        let text = text.trim();
        match host(text) {
            Some(host) => Self::Of(host),
            None if is_address(text) => Self::Unclear,
            None => Self::None,
        }
    }
}

/// One way to read a text, and where that leads.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Way {
    reading: Reading,
    /// None if it cannot be decided.
    real: Option<String>,
    /// The folder that it is in is not known.
    is_adrift: bool,
}

/// The places of all texts in an argument. Names of nested values are as those of arguments.
pub(super) fn places(
    value: &Json,
    role: Role,
    folder: Option<&str>,
    links: &Links<'_>,
) -> Vec<Place> {
    let mut places = Vec::new();
    collect(value, role, &mut |text: &str, role: Role| {
        // Only a path that is left empty means the folder.
        if role == Role::Path || !text.is_empty() {
            places.push(Place::read(text, role, folder, links));
            let parts = parts(text, role).into_iter();
            places.extend(parts.map(|(text, role)| Place::read(text, role, folder, links)));
        }
    });
    places
}

/// The texts in a text that may be paths: those of a list, and words.
fn parts(text: &str, role: Role) -> Vec<(&str, Role)> {
    let is_between = |c: char| matches!(c, ',' | ';' | '\n') || (c == ':' && role != Role::Path);
    let items = text.split(is_between).map(str::trim);
    let items: Vec<&str> = items.filter(|item| !item.is_empty()).collect();
    let is_list = items.len() > 1
        && match role {
            Role::Path => true,
            Role::Maybe => items.iter().all(|item| has_form(item)),
            Role::Prose | Role::Word => false,
        };
    let items = items.into_iter().filter(|_| is_list);
    let mut parts: Vec<_> = items.map(|item| (item, role)).collect();
    if role == Role::Maybe {
        let is_around =
            |c: char| c.is_whitespace() || is_between(c) || "=|&\"'`()[]{}<>".contains(c);
        let words = text.split(is_around);
        // Many programs read `@file` for the content of the file.
        let words = words.map(|word| word.trim_start_matches('@'));
        let words = words.filter(|word| *word != text && has_form(word));
        let words: BTreeSet<&str> = words.collect();
        parts.extend(words.into_iter().map(|word| (word, Role::Word)));
    }
    parts
}

fn collect(value: &Json, role: Role, found: &mut impl FnMut(&str, Role)) {
    match value {
        Json::String(text) => found(text, role),
        Json::Array(items) => items.iter().for_each(|item| collect(item, role, found)),
        Json::Object(fields) => {
            for (name, value) in fields {
                // Files by their names.
                found(name, Role::Maybe);
                let role = match kind_of_text(name) {
                    MatcherKind::Path => Role::Path,
                    MatcherKind::Prose => Role::Prose,
                    _ => Role::Maybe,
                };
                collect(value, role, found);
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
}

impl Place {
    fn read(text: &str, role: Role, folder: Option<&str>, links: &Links<'_>) -> Self {
        let readings = readings(text, folder);
        let way = |reading: Reading| {
            let real = match links.get(reading.text.as_str()) {
                Some(&"") => None,
                Some(&real) => Some(real.to_owned()),
                None => Some(reading.path.clone()),
            };
            let first = reading.path.split('/').next().unwrap_or_default();
            // An empty one is the root.
            let leaves = matches!(first, "" | "..") || is_drive(first);
            Way {
                is_adrift: folder.is_none() && leaves,
                reading,
                real,
            }
        };
        Self {
            role,
            ways: readings.all.into_iter().map(way).collect(),
            is_known: readings.is_known,
            is_single: readings.is_single,
            address: Address::read(text),
        }
    }

    /// The texts that are to be looked up for links, each with the path that it says. A path that is
    /// unclear already needs no look, and words are too many.
    pub(super) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let is_needed = match self.role {
            Role::Path => self.is_single,
            Role::Maybe | Role::Prose => self.is_known,
            Role::Word => false,
        };
        let ways = self.ways.iter().filter(move |_| is_needed);
        ways.map(|way| (way.reading.text.as_str(), way.reading.path.as_str()))
    }

    /// Where every program finds it.
    pub(super) fn only(&self) -> Option<&str> {
        let way = self.ways.first().filter(|_| self.is_single)?;
        way.real.as_deref()
    }

    /// No link is on its way.
    pub(super) fn is_straight(&self) -> bool {
        let is_straight = |way: &Way| way.real.as_ref() == Some(&way.reading.path);
        self.ways.iter().all(is_straight) && (self.role != Role::Path || self.is_single)
    }

    /// It is declared to be a path, or has the form of one.
    pub(super) fn may_be_path(&self) -> bool {
        match self.role {
            Role::Path => true,
            Role::Maybe => self.ways.iter().any(|way| has_form(&way.reading.text)),
            // A tool may make the name of a file of it.
            Role::Prose => self.ways.iter().any(|way| has_parent(&way.reading.text)),
            Role::Word => false,
        }
    }

    /// For certain, it leads to where the pattern says. `folder` is as for [`places`].
    pub(super) fn is_within(&self, pattern: &Pattern, folder: Option<&str>) -> bool {
        let is_clear = match self.role {
            Role::Path => self.is_single,
            Role::Maybe | Role::Prose => self.is_known,
            Role::Word => return true,
        };
        let is_within = |way: &Way| {
            let real = way.real.as_ref();
            real.is_some_and(|real| is_at(real, pattern, folder))
        };
        is_clear && self.ways.iter().all(is_within)
    }

    /// For certain, it leads to below this folder, which is `.` for that of the program.
    pub(super) fn is_below(&self, folder: &str) -> bool {
        let is_clear = match self.role {
            Role::Path => self.is_single,
            Role::Maybe | Role::Prose => self.is_known,
            Role::Word => return true,
        };
        let is_below = |way: &Way| {
            let real = way.real.as_deref();
            real.is_some_and(|real| is_below(real, folder))
        };
        is_clear && self.ways.iter().all(is_below)
    }

    /// Perhaps, it leads to where the pattern says. `folder` is as for [`places`].
    pub(super) fn may_touch(&self, pattern: &Pattern, folder: Option<&str>) -> bool {
        let may_touch = |way: &Way| {
            let (path, real) = (way.reading.path.as_str(), way.real.as_deref());
            let is_path = matches!(self.role, Role::Path | Role::Maybe);
            let is_adrift = way.is_adrift && is_path && pattern.is_relative();
            is_adrift
                || is_at(path, pattern, folder)
                || real.is_none_or(|real| real != path && is_at(real, pattern, folder))
        };
        let is_clear = match self.role {
            Role::Path => self.is_single,
            Role::Maybe | Role::Prose => self.is_known,
            Role::Word => true,
        };
        !is_clear || self.ways.iter().any(may_touch)
    }

    /// It is an address, and every program reads it so.
    pub(super) fn is_address(&self) -> bool {
        self.is_single && matches!(self.address, Address::Of(_))
    }

    /// For certain, it is no address of a host that the pattern does not mean.
    pub(super) fn is_within_host(&self, pattern: &Pattern) -> bool {
        match &self.address {
            Address::Of(host) => self.role == Role::Prose || pattern.is_match(host),
            Address::Unclear => self.role == Role::Prose,
            Address::None => true,
        }
    }

    /// Perhaps, it is an address of a host that the pattern means.
    pub(super) fn may_have_host(&self, pattern: &Pattern) -> bool {
        match &self.address {
            Address::Of(host) => pattern.is_match(host),
            Address::Unclear => self.role != Role::Prose,
            Address::None => false,
        }
    }
}

/// The pattern is for this path. A path below the folder has no root, but a pattern may have one.
fn is_at(path: &str, pattern: &Pattern, folder: Option<&str>) -> bool {
    pattern.is_match(path)
        || (pattern.is_from_root() && pattern.is_match(&normal(path, folder)))
        || (pattern.ignores_case() && pattern.is_match(&lower(path, folder)))
}

/// A path as it is read is below a folder.
fn is_below(path: &str, folder: &str) -> bool {
    let first = path.split('/').next().unwrap_or_default();
    match folder {
        "." => path != "." && !matches!(first, "" | "..") && !is_drive(first),
        folder => path
            .strip_prefix(folder)
            .is_some_and(|rest| rest.len() > 1 && rest.starts_with('/')),
    }
}

/// Whether a text that may be a path has the form of one: it begins like a path, has a part `..`, or is
/// without blanks and has a separator or the ending of a file. Others are no paths: addresses, and patterns
/// such as `**/*.md`, which tools apply in the folder of the call.
fn has_form(text: &str) -> bool {
    let is_no_path = |c: char| c.is_whitespace() || matches!(c, '*' | '?');
    let is_other = is_address(text) || text.contains(is_no_path);
    text.starts_with(['/', '~', '.'])
        || has_parent(text)
        || (!is_other && (text.contains('/') || has_ending(text)))
}

fn has_parent(text: &str) -> bool {
    text.split('/').any(|part| part == "..")
}

/// `C:`, which is a root on some systems.
fn is_drive(part: &str) -> bool {
    matches!(part.as_bytes(), [letter, b':'] if letter.is_ascii_alphabetic())
}

/// `notes.md`, but not `1.5` or `v1.2`.
fn has_ending(text: &str) -> bool {
    let ending = text.rsplit_once('.').map_or("", |(_, ending)| ending);
    (1..=MOST_ENDING).contains(&ending.len())
        && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && ending.bytes().any(|byte| byte.is_ascii_alphabetic())
}
