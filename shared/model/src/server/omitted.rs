//! Optional fields of a request, and which of them a server is not sent.

use crate::ModelError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A field of a request that some servers refuse. A request without it asks for the same reply, or for
/// nearly the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptionalField {
    /// Asks for usage in streams. Without it, usage is estimated.
    StreamOptions,
    /// The sampling temperature. Only the value that was refused is left out: another one may be taken.
    Temperature,
    /// The form of the reply (`output_config` in Anthropic's protocol). It is left out only where the
    /// settings say so, because the reply may have another form without it.
    ResponseFormat,
    /// Anthropic's marks for its cache.
    CacheControl,
    /// The limit on a reply's length under its old name. Without it, the limit is sent as
    /// `max_completion_tokens`. Anthropic's protocol has one name only.
    MaxTokens,
    /// Whether a reply may ask for several calls (`tool_choice` in Anthropic's protocol). Without it, the
    /// server's default holds, and several calls are made as well.
    ParallelToolCalls,
}

impl OptionalField {
    /// Each field that is left out once a server refuses it, with the names that such an error has.
    const REFUSED: [(Self, &'static [&'static str]); 7] = [
        (Self::StreamOptions, &["stream_options"]),
        (Self::Temperature, &["temperature"]),
        (Self::CacheControl, &["cache_control"]),
        // An error that does not name the other field is about the limit's size.
        (Self::MaxTokens, &["max_tokens", "max_completion_tokens"]),
        (Self::ParallelToolCalls, &["parallel_tool_calls"]),
        (Self::ParallelToolCalls, &["disable_parallel_tool_use"]),
        (Self::ParallelToolCalls, &["tool_choice"]),
    ];

    fn bit(self) -> u8 {
        1 << (self as u8)
    }
}

/// A set of optional fields that are not sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Omitted(u8);

impl Omitted {
    pub(super) fn of(fields: &[OptionalField]) -> Self {
        Self(fields.iter().fold(0, |bits, field| bits | field.bit()))
    }

    pub(super) fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    pub(super) fn bits(self) -> u8 {
        self.0
    }

    /// The names of those that servers refuse, for people.
    pub(super) fn names(self) -> String {
        let fields = OptionalField::REFUSED
            .iter()
            .filter(|(field, _)| self.has(*field));
        // Of a field with several names, the first one.
        let named: BTreeMap<u8, &str> = fields
            .rev()
            .map(|(field, names)| (field.bit(), names[0]))
            .collect();
        let names: Vec<_> = named.into_values().collect();
        names.join(", ")
    }

    pub(crate) fn has(self, field: OptionalField) -> bool {
        self.0 & field.bit() != 0
    }

    pub(super) fn with(self, field: OptionalField) -> Self {
        Self(self.0 | field.bit())
    }

    pub(super) fn without(self, field: OptionalField) -> Self {
        Self(self.0 & !field.bit())
    }

    /// The set with one more field: the first one that a server's error names. None if it names none
    /// that was sent.
    pub(super) fn with_refused(self, error: &ModelError) -> Option<Self> {
        let ModelError::BadRequest { message } = error else {
            return None;
        };
        let is_named = |names: &[&str]| names.iter().all(|name| has_word(message, name));
        let mut fields = OptionalField::REFUSED.into_iter();
        let (field, _) = fields.find(|&(field, names)| !self.has(field) && is_named(names))?;
        Some(self.with(field))
    }
}

/// Whether a text has this name, and not as a part of a longer one.
fn has_word(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_with_several_names_is_named_once() {
        let fields = [
            OptionalField::ParallelToolCalls,
            OptionalField::StreamOptions,
        ];
        let names = Omitted::of(&fields).names();
        assert_eq!(names, "stream_options, parallel_tool_calls");
    }
}
