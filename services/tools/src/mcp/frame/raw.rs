//! Values as they are written, to be read one by one.
//!
//! The library has a type for that, which changes how it reads every value of the program: JSON in a text would
//! count as a value, beyond the limit on nesting.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Deserializer;
use std::collections::BTreeMap;

/// A value of JSON as it is written, without the blanks around it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raw<'a>(&'a str);

impl<'a> Raw<'a> {
    pub(super) fn get(self) -> &'a str {
        self.0
    }
}

/// The values of an object by their names; of two with one name the last. None if the text is no object.
pub(super) fn fields(text: &str) -> Option<BTreeMap<String, Raw<'_>>> {
    let mut rest = Rest(text);
    let mut fields = BTreeMap::new();
    rest.list(['{', '}'], |rest| {
        let name: String = rest.read()?.0;
        rest.mark(':')?;
        fields.insert(name, rest.read::<IgnoredAny>()?.1);
        Some(())
    })?;
    rest.is_empty().then_some(fields)
}

/// The items of a list. None if the text is no list.
pub(super) fn items(text: &str) -> Option<Vec<Raw<'_>>> {
    let mut rest = Rest(text);
    let mut items = Vec::new();
    rest.list(['[', ']'], |rest| {
        items.push(rest.read::<IgnoredAny>()?.1);
        Some(())
    })?;
    rest.is_empty().then_some(items)
}

/// What is still to be read of a text.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    /// Takes what is between these marks, with a comma between two items.
    fn list(
        &mut self,
        [begin, end]: [char; 2],
        mut item: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        self.mark(begin)?;
        if self.mark(end).is_some() {
            return Some(());
        }
        loop {
            item(self)?;
            if self.mark(',').is_none() {
                return self.mark(end);
            }
        }
    }

    /// Takes this mark, if it is next.
    fn mark(&mut self, mark: char) -> Option<()> {
        self.0 = self.without_blanks().strip_prefix(mark)?;
        Some(())
    }

    /// Takes the next value.
    fn read<T: Deserialize<'a>>(&mut self) -> Option<(T, Raw<'a>)> {
        let text = self.without_blanks();
        let mut values = Deserializer::from_str(text).into_iter::<T>();
        let value = values.next()?.ok()?;
        let (raw, rest) = text.split_at_checked(values.byte_offset())?;
        self.0 = rest;
        Some((value, Raw(raw)))
    }

    fn is_empty(&self) -> bool {
        self.without_blanks().is_empty()
    }

    fn without_blanks(&self) -> &'a str {
        self.0.trim_start_matches([' ', '\t', '\r', '\n'])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields of an object, each with its value as it is written.
    fn shown(text: &str) -> Option<String> {
        let fields = fields(text)?;
        let pairs = fields
            .iter()
            .map(|(name, raw)| format!("{name}={}", raw.get()));
        Some(pairs.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn values_are_as_they_are_written() {
        for (text, expected) in [
            (" { } ", ""),
            (
                "{\"a\" : 1.50 , \"b\":\"\\u0061\" }",
                "a=1.50 b=\"\\u0061\"",
            ),
            (
                "{\"\\u0061\":[1, {\"b\":2}],\"c\":null}\n",
                "a=[1, {\"b\":2}] c=null",
            ),
            ("{\"a\":1,\"a\":2}", "a=2"),
            ("{\"a\":-0,\"é\":\"é\"}", "a=-0 é=\"é\""),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected));
        }
        let items = items("[1 ,\"a,]\", [ ],true]").unwrap();
        let shown: Vec<_> = items.into_iter().map(Raw::get).collect();
        assert_eq!(shown, ["1", "\"a,]\"", "[ ]", "true"]);
    }

    #[test]
    fn what_is_no_json_has_no_values() {
        for text in [
            "", "null", "[", "]", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1] 2", "[1]]", "[01]",
            "[tru]", "[\"a]", "[1}", "{}",
        ] {
            assert!(items(text).is_none(), "{text}");
        }
        for text in [
            "",
            "{",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{1:1}",
            "{\"a\" 1}",
            "{} {}",
            "{\"a\":1]",
            "[]",
        ] {
            assert!(fields(text).is_none(), "{text}");
        }
    }
}
