//! How a tool declares the arguments of its calls.

use serde::{Deserialize, Serialize};

/// How a tool declares an argument of its calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matcher {
    /// The name that is shown for its value: the argument's own, `host` for an address.
    pub name: String,
    /// How it is read from the argument.
    pub kind: MatcherKind,
    /// The argument that holds it, at the top level. Rules name it by this. Empty if it stands for all
    /// arguments of a tool that declares none; see [`Matcher::of_undeclared`].
    pub argument: String,
    /// The argument's value in a call that leaves it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The folder of the program that gets the argument. A relative path is from there, and an absolute
    /// path below it is the same as a relative one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

impl Matcher {
    /// Stands for whatever arguments a call has, of a tool that declares none: it says in which folder the
    /// program runs that gets them. Such a tool has no other matcher.
    pub fn of_undeclared(folder: String) -> Self {
        Self {
            name: String::new(),
            kind: MatcherKind::Text,
            argument: String::new(),
            default: None,
            folder: Some(folder),
        }
    }

    /// Whether it declares no argument; see [`Matcher::of_undeclared`].
    pub fn is_of_undeclared(&self) -> bool {
        self.argument.is_empty()
    }
}

/// How a value is read. In arguments of every kind but [`MatcherKind::Free`], rules that deny or ask take
/// every text for a path, too, and each word of a text but in [`MatcherKind::Prose`]. The kinds differ in what
/// a rule that allows a path wants of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MatcherKind {
    /// A path, or a list of paths. Rules that allow a path want each of them within it.
    Path,
    /// The host of an address, in lower case and without port and user.
    Host,
    /// Any text. With a part `..` between separators it is unclear. If it has the form of a path, such as
    /// a separator or an ending, rules that allow a path want it within the path.
    Text,
    /// Plain text, such as a message. Rules that allow a path do not take it for one, unless it has a part
    /// `..`.
    Prose,
    /// The JSON of what is no text, such as a number or a list. Texts in it are as in
    /// [`MatcherKind::Text`].
    Json,
    /// Rules and approvals do not look at it. Only for tools whose code is known.
    Free,
}

/// A name and a pattern or a text. In an approval: the name of a value, and its pattern, which is empty if
/// the calls leave the value out. In what the tools service found: a text of the arguments, and the path
/// that it leads to, which is empty if that cannot be decided.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Condition {
    /// The name of the value, or the text.
    pub name: String,
    /// The pattern, or the path.
    pub pattern: String,
}
