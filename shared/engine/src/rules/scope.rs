//! What a call touches, and whether rules and approvals cover that.
//!
//! Two questions are asked of a scope. A rule that allows, and an approval of further calls, hold only if
//! the call is within their patterns for certain ([`Scope::is_within`]). A rule that denies or asks holds
//! if the call may touch its patterns ([`Scope::may_touch`]). So nothing unclear is allowed, and nothing
//! unclear passes a rule that denies.

mod place;

use super::host::host;
use super::names::kind_of_text;
use super::protected;
use super::{Condition, Matcher, MatcherKind, Pattern};
use crate::canonical::to_canonical_json;
use place::{Links, Place, Role, places};
use serde_json::{Map, Value as Json};
use std::collections::{BTreeMap, BTreeSet};

/// The name in rules of every path of a call that the rule does not name itself.
pub(super) const PATH: &str = "path";
/// The name in rules of every host of a call that the rule does not name itself.
const HOST: &str = "host";

/// What a call touches: its arguments by name, with every text of them read as a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scope {
    arguments: BTreeMap<String, Argument>,
    /// The tool declares no arguments, so that each call may have others.
    is_undeclared: bool,
    /// Nothing is certain: the arguments are no object, one is not declared, or two names differ by case
    /// only.
    pub(super) is_unclear: bool,
}

/// One argument of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Argument {
    kind: MatcherKind,
    /// The one form of its value. None if the value is unclear: it can be read in more than one way, or is
    /// not of its kind.
    value: Option<String>,
    /// A number as programs read it: 3.0 is 3.
    number: Option<String>,
    /// Of the program that gets it, if it is known.
    folder: Option<String>,
    places: Vec<Place>,
    /// Its own name as a text, where the tool does not declare it: some tools take files by their names.
    name: Vec<Place>,
}

/// What a call with these arguments touches; they are JSON as the model wrote them. A tool that declares
/// nothing has no matchers, or one for its folder ([`Matcher::of_undeclared`]). Its arguments are read by
/// their names, and the names are texts of the call, too.
///
/// `links` is what the tools service found: texts of [`Scope::texts`], and where they lead.
pub fn scope(matchers: &[Matcher], arguments: &str, links: &[Condition]) -> Scope {
    let text = match arguments.trim().is_empty() {
        true => "{}",
        false => arguments,
    };
    let Ok(Json::Object(given)) = serde_json::from_str(text) else {
        // No tool takes them; a judge must not find them harmless all the same.
        return Scope {
            is_unclear: true,
            ..Scope::default()
        };
    };
    let folder = matchers.first().and_then(|it| it.folder.as_deref());
    let by_name: Vec<Matcher>;
    let (declared, matchers) = match matchers.iter().all(Matcher::is_of_undeclared) {
        true => {
            let arguments = given.iter();
            by_name = arguments.map(|it| matcher_of(it, folder)).collect();
            (None, &*by_name)
        }
        false => (Some(matchers), matchers),
    };
    let links = links
        .iter()
        .map(|it| (it.name.as_str(), it.pattern.as_str()));
    let links: Links<'_> = links.collect();
    let read = |matcher: &Matcher| {
        let argument = given.get(&matcher.argument);
        // Where it is not declared, its name says something also without a value.
        let argument = argument.filter(|it| declared.is_none() || !it.is_null());
        let mut argument = match (argument, &matcher.default, matcher.kind) {
            (_, _, MatcherKind::Free) | (None, None, _) => return None,
            (Some(given), _, _) => Argument::read(matcher, given, &links),
            (None, Some(default), kind) => {
                Argument::read(matcher, &default_of(kind, default), &links)
            }
        };
        if declared.is_none() {
            let name = Json::String(matcher.argument.clone());
            argument.name = places(&name, Role::Maybe, folder, &links);
        }
        Some((matcher.argument.clone(), argument))
    };
    Scope {
        arguments: matchers.iter().filter_map(read).collect(),
        is_undeclared: declared.is_none(),
        is_unclear: is_unclear(&given, declared),
    }
}

/// The value that a default stands for: JSON, a text, or the JSON of several paths.
fn default_of(kind: MatcherKind, default: &str) -> Json {
    match serde_json::from_str(default) {
        Ok(value) if kind == MatcherKind::Json => value,
        Ok(several @ (Json::Array(_) | Json::Object(_))) if kind == MatcherKind::Path => several,
        _ => Json::String(default.to_owned()),
    }
}

/// How an argument is read that no schema declares. `folder` is that of the program that gets it, if it is
/// known.
fn matcher_of((name, value): (&String, &Json), folder: Option<&str>) -> Matcher {
    Matcher {
        name: name.clone(),
        kind: match (kind_of_text(name), value) {
            (kind, Json::String(_)) => kind,
            (MatcherKind::Path, Json::Array(_) | Json::Object(_)) => MatcherKind::Path,
            _ => MatcherKind::Json,
        },
        argument: name.clone(),
        default: None,
        folder: folder.map(str::to_owned),
    }
}

/// Servers differ about names that differ by case only, and about arguments that they do not declare.
fn is_unclear(given: &Map<String, Json>, declared: Option<&[Matcher]>) -> bool {
    let mut names = BTreeSet::new();
    let is_declared =
        |name: &str| declared.is_none_or(|matchers| matchers.iter().any(|it| it.argument == name));
    given
        .keys()
        .any(|name| !is_declared(name) || !names.insert(name.to_lowercase()))
}

impl Scope {
    /// The texts that may be paths, each with the path that it says. Where a link leads is not known here.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let places = self.arguments.values().flat_map(|it| it.texts());
        places.flat_map(|place| place.texts())
    }

    /// The names of the values that the call has.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.arguments.keys().map(String::as_str)
    }

    /// The one form of an argument's value.
    ///
    /// # Errors
    /// The value is unclear. None if the call leaves the argument out.
    pub(crate) fn value(&self, argument: &str) -> Option<Result<&str, ()>> {
        let argument = self.arguments.get(argument)?;
        let value = argument.value.as_deref().filter(|_| !self.is_unclear);
        Some(value.ok_or(()))
    }

    /// Where the only path of a call leads that its tool declares. None if it has several, or if that is not clear.
    pub(super) fn only_path(&self) -> Option<&str> {
        let mut paths = self
            .arguments
            .values()
            .filter(|it| it.kind == MatcherKind::Path);
        let (path, None) = (paths.next()?, paths.next()) else {
            return None;
        };
        let [place] = &*path.places else {
            return None;
        };
        place
            .only()
            .filter(|_| !self.is_unclear && !self.is_undeclared)
    }

    /// For certain, all paths of the call are below a folder, as [`Self::only_path`] has them.
    pub(super) fn is_below(&self, folder: &str) -> bool {
        let texts = self.arguments.values().flat_map(|it| it.texts());
        let mut paths = texts.filter(|it| it.may_be_path());
        !self.is_unclear && paths.all(|it| it.is_below(folder))
    }

    fn has(&self, name: &str) -> bool {
        let mut arguments = self.arguments.values();
        self.arguments.contains_key(name)
            || (name == HOST && arguments.any(|it| it.kind == MatcherKind::Host))
    }

    /// For certain, all conditions are met.
    pub(super) fn is_within(&self, when: &[(String, Pattern)]) -> bool {
        let is_met = |condition| self.meets(condition, when);
        when.is_empty() || (!self.is_unclear && when.iter().all(is_met))
    }

    /// An approval of further calls with these conditions covers the call.
    pub(super) fn is_covered(&self, when: &[(String, Pattern)]) -> bool {
        let is_named = |name: &str| when.iter().any(|(named, _)| named == name);
        let has_others = self.is_undeclared && !self.names().all(is_named);
        let is_met = |condition: &(String, Pattern)| {
            let (name, pattern) = condition;
            let is_left_out = pattern.text.is_empty() && !self.has(name);
            is_left_out || self.meets(condition, when)
        };
        !self.is_unclear && !has_others && when.iter().all(is_met)
    }

    /// For certain, one of these conditions is met.
    fn meets(&self, (name, pattern): &(String, Pattern), when: &[(String, Pattern)]) -> bool {
        match name.as_str() {
            PATH => self.paths_are_within(when, pattern),
            HOST => self.hosts_are_within(when, pattern),
            name => {
                let argument = self.arguments.get(name);
                argument.is_some_and(|it| it.is_within(pattern))
            }
        }
    }

    /// All paths that the conditions do not name themselves. Where there is none, nothing is known of any.
    fn paths_are_within(&self, when: &[(String, Pattern)], pattern: &Pattern) -> bool {
        let mut is_any = false;
        for (name, argument) in self.unnamed(when, PATH) {
            if name == PATH && argument.is_exactly(pattern) {
                is_any = true;
                continue;
            }
            for place in argument.texts().filter(|it| it.may_be_path()) {
                is_any = true;
                if !place.is_within(pattern, argument.folder.as_deref()) {
                    return false;
                }
            }
            // It is declared to be a path, and is none.
            if argument.kind == MatcherKind::Path && argument.places.is_empty() {
                return false;
            }
        }
        is_any
    }

    /// All hosts that the conditions do not name themselves, as for paths.
    fn hosts_are_within(&self, when: &[(String, Pattern)], pattern: &Pattern) -> bool {
        let mut is_any = false;
        for (name, argument) in self.unnamed(when, HOST) {
            if argument.is_host(name) {
                is_any = true;
                if !argument.is_within(pattern) {
                    return false;
                }
            } else if !argument.places.iter().all(|it| it.is_within_host(pattern)) {
                return false;
            }
            if !argument.name.iter().all(|it| it.is_within_host(pattern)) {
                return false;
            }
        }
        is_any
    }

    /// Perhaps, all conditions are met.
    pub(super) fn may_touch(&self, when: &[(String, Pattern)]) -> bool {
        let is_met = |(name, pattern): &(String, Pattern)| match name.as_str() {
            PATH => self.unnamed(when, PATH).any(|(_, it)| {
                it.is_no_path() || it.is_place_touched(pattern) || it.is_name_touched(pattern)
            }),
            HOST => self.unnamed(when, HOST).any(|(name, it)| {
                (it.is_host(name) && it.may_touch(pattern))
                    || it.texts().any(|it| it.may_have_host(pattern))
            }),
            name => {
                let argument = self.arguments.get(name);
                argument.is_some_and(|it| it.may_touch(pattern))
            }
        };
        when.is_empty() || self.is_unclear || when.iter().all(is_met)
    }

    /// Perhaps, one of its paths is a file that Cairn, git or an agent reads or runs on its own.
    pub(crate) fn may_be_protected(&self) -> bool {
        let touches = |argument: &Argument| {
            let is_touched = |pattern: &Pattern| {
                argument.is_place_touched(pattern) || argument.is_name_touched(pattern)
            };
            let mut patterns = protected::patterns();
            // Whether a path is one from the workspace is known only with the folder of the program.
            let is_known = |it: &&Pattern| argument.folder.is_some() || !it.is_relative();
            argument.is_no_path() || patterns.any(|it| is_known(&it) && is_touched(it))
        };
        self.is_unclear || self.arguments.values().any(touches)
    }

    /// The arguments that the conditions do not name, and the one with the common name.
    fn unnamed<'a>(
        &'a self,
        when: &'a [(String, Pattern)],
        common: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Argument)> {
        let arguments = self.arguments.iter();
        let arguments = arguments.map(|(name, argument)| (name.as_str(), argument));
        arguments.filter(move |(name, _)| {
            *name == common || !when.iter().any(|(named, _)| named.as_str() == *name)
        })
    }
}

impl Argument {
    fn read(matcher: &Matcher, given: &Json, links: &Links<'_>) -> Self {
        let role = match matcher.kind {
            MatcherKind::Path => Role::Path,
            MatcherKind::Prose => Role::Prose,
            MatcherKind::Host | MatcherKind::Text | MatcherKind::Json | MatcherKind::Free => {
                Role::Maybe
            }
        };
        let places = places(given, role, matcher.folder.as_deref(), links);
        let is_straight = places.iter().all(Place::is_straight);
        let value = match (matcher.kind, given) {
            (MatcherKind::Json, value) => Some(to_canonical_json(value)).filter(|_| is_straight),
            (MatcherKind::Path, Json::String(_)) => {
                places.first().and_then(Place::only).map(str::to_owned)
            }
            (MatcherKind::Path, Json::Array(_) | Json::Object(_)) => {
                Some(to_canonical_json(given)).filter(|_| is_straight)
            }
            (MatcherKind::Host, Json::String(text)) => host(text),
            (MatcherKind::Text | MatcherKind::Prose, Json::String(text)) => {
                let leaves = text.split(['/', '\\']).any(|part| part == "..");
                (!leaves && is_straight).then(|| text.clone())
            }
            _ => None,
        };
        Self {
            kind: matcher.kind,
            value,
            number: given.as_f64().map(|number| number.to_string()),
            folder: matcher.folder.clone(),
            places,
            name: Vec::new(),
        }
    }

    /// All texts of it, with its name if that counts.
    fn texts(&self) -> impl Iterator<Item = &Place> {
        self.places.iter().chain(&self.name)
    }

    /// It is an address, or has the name of a host.
    fn is_host(&self, name: &str) -> bool {
        name == HOST || self.kind == MatcherKind::Host
    }

    /// It is declared to be a path, and is none, such as a number. An empty list has none.
    fn is_no_path(&self) -> bool {
        let is_empty = matches!(self.value.as_deref(), Some("[]" | "{}"));
        self.kind == MatcherKind::Path && self.places.is_empty() && !is_empty
    }

    /// The pattern is the one that only this value has.
    fn is_exactly(&self, pattern: &Pattern) -> bool {
        let value = self.value.as_deref();
        value.is_some_and(|value| super::exactly(value) == pattern.text)
    }

    fn is_within(&self, pattern: &Pattern) -> bool {
        if self.is_exactly(pattern) {
            return true;
        }
        match (&self.value, self.kind) {
            (_, MatcherKind::Path) => !self.places.is_empty() && self.are_places_within(pattern),
            (Some(value), MatcherKind::Host | MatcherKind::Json) => pattern.is_match(value),
            // A pattern of paths is meant for where a path leads.
            (Some(value), MatcherKind::Text | MatcherKind::Prose) => {
                let is_address = self.places.first().is_some_and(Place::is_address);
                let is_of_paths = pattern.text.contains('/') && !is_address;
                pattern.is_match(value) && (!is_of_paths || self.are_places_within(pattern))
            }
            (None, _) | (Some(_), MatcherKind::Free) => false,
        }
    }

    fn may_touch(&self, pattern: &Pattern) -> bool {
        let value = match self.kind {
            MatcherKind::Path => None,
            _ => Some(self.value.as_deref()),
        };
        let by_value = value.is_some_and(|it| it.is_none_or(|it| pattern.is_match(it)));
        let number = self.number.as_ref();
        let by_number = number.is_some_and(|number| pattern.is_match(number));
        self.is_no_path() || by_value || by_number || self.is_place_touched(pattern)
    }

    fn are_places_within(&self, pattern: &Pattern) -> bool {
        let folder = self.folder.as_deref();
        self.places.iter().all(|it| it.is_within(pattern, folder))
    }

    fn is_place_touched(&self, pattern: &Pattern) -> bool {
        let folder = self.folder.as_deref();
        self.places.iter().any(|it| it.may_touch(pattern, folder))
    }

    fn is_name_touched(&self, pattern: &Pattern) -> bool {
        let folder = self.folder.as_deref();
        self.name.iter().any(|it| it.may_touch(pattern, folder))
    }
}
