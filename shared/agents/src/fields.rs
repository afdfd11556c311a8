//! Reads fields by their names and types. A field of another type is noted as an error, and one that is not
//! known as a warning.

use crate::fault::{Found, shown};
use crate::names::{key_of, nearest};
use crate::yaml::{Entry, Value};
use std::ops::RangeInclusive;

/// Most texts of one list.
pub(crate) const MAX_ITEMS: usize = 256;
/// Most bytes of a text of a list.
const MAX_ITEM: usize = 128;

/// The fields of a map that were not read yet.
#[derive(Debug)]
pub(crate) struct Fields {
    /// With their names as they are compared.
    left: Vec<(String, Entry)>,
    pub(crate) found: Found,
}

/// A text of a list.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) line: u64,
    pub(crate) text: String,
}

/// Which fields have a meaning, by their names as they are compared.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    /// What they are fields of.
    pub(crate) whose: &'static str,
    /// Fields that count, as suggestions write them.
    pub(crate) known: &'static [&'static str],
    /// Fields that other programs show to people.
    pub(crate) shown: &'static [&'static str],
    /// Fields that do something in other programs.
    pub(crate) idle: &'static [&'static str],
}

impl Vocabulary {
    /// All fields that have a meaning somewhere.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        [self.known, self.shown, self.idle].concat()
    }
}

impl Fields {
    /// The fields of a map whose own field is `within`.
    pub(crate) fn new(within: &str, entries: Vec<Entry>) -> Self {
        let keyed = |mut entry: Entry| {
            let key = key_of(&entry.name);
            if !within.is_empty() {
                entry.name = format!("{within}.{}", entry.name);
            }
            (key, entry)
        };
        Self {
            left: entries.into_iter().map(keyed).collect(),
            found: Found::default(),
        }
    }

    /// The field of one of these names.
    pub(crate) fn take(&mut self, names: &[&str]) -> Option<Entry> {
        let is_it = |(key, _): &mut (String, Entry)| names.contains(&key.as_str());
        let mut taken = self.left.extract_if(.., is_it).map(|(_, entry)| entry);
        let first = taken.next()?;
        for again in taken {
            let problem = format!("is {} of line {} again", first.name, first.line);
            self.found
                .error(again.line, &again.name, problem, "each field once");
        }
        Some(first)
    }

    fn wrong(&mut self, entry: &Entry, allowed: &str) {
        self.found
            .error(entry.line, &entry.name, shown(&entry.value), allowed);
    }

    /// A text of at most so many bytes.
    pub(crate) fn text(&mut self, names: &[&str], most: usize) -> Option<String> {
        let entry = self.take(names)?;
        match &entry.value {
            Value::Nothing => None,
            Value::Text(text) if text.len() <= most => Some(text.clone()),
            Value::Text(text) => {
                let problem = format!("has {} bytes", text.len());
                let allowed = format!("at most {most}");
                self.found.error(entry.line, &entry.name, problem, allowed);
                None
            }
            _ => {
                self.wrong(
                    &entry,
                    "text, in quotes if it looks like a number, a list or a map",
                );
                None
            }
        }
    }

    pub(crate) fn truth(&mut self, names: &[&str]) -> Option<bool> {
        let entry = self.take(names)?;
        match entry.value {
            Value::Nothing => None,
            Value::Truth(truth) => Some(truth),
            _ => {
                self.wrong(&entry, "true or false");
                None
            }
        }
    }

    pub(crate) fn whole(&mut self, names: &[&str], range: RangeInclusive<u64>) -> Option<u64> {
        let entry = self.take(names)?;
        match entry.value {
            Value::Nothing => None,
            Value::Whole(number) if range.contains(&number) => Some(number),
            _ => {
                let allowed = format!("a whole number from {} to {}", range.start(), range.end());
                self.wrong(&entry, &allowed);
                None
            }
        }
    }

    pub(crate) fn small(&mut self, names: &[&str], range: RangeInclusive<u32>) -> Option<u32> {
        let range = u64::from(*range.start())..=u64::from(*range.end());
        self.whole(names, range)
            .and_then(|number| u32::try_from(number).ok())
    }

    /// A number of which so many decimals count, as a whole number of the smallest part. Further decimals are
    /// cut off.
    pub(crate) fn decimal(
        &mut self,
        names: &[&str],
        decimals: usize,
        range: RangeInclusive<u64>,
        allowed: &str,
    ) -> Option<u64> {
        let entry = self.take(names)?;
        let number = match &entry.value {
            Value::Nothing => return None,
            Value::Whole(number) => scaled(&number.to_string(), decimals),
            Value::Number(number) => scaled(number, decimals),
            _ => None,
        };
        let number = number.filter(|number| range.contains(number));
        if number.is_none() {
            self.wrong(&entry, allowed);
        }
        number
    }

    /// One of the names of a table, in any case of letters.
    pub(crate) fn one_of<T: Copy>(&mut self, names: &[&str], table: &[(&str, T)]) -> Option<T> {
        let entry = self.take(names)?;
        let name = match &entry.value {
            Value::Nothing => return None,
            Value::Text(text) => text.as_str(),
            _ => "",
        };
        let row = table
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        if row.is_none() {
            let known: Vec<&str> = table.iter().map(|(known, _)| *known).collect();
            self.wrong(&entry, &known.join(", "));
        }
        row.map(|(_, value)| *value)
    }

    /// Names, of a list or of one text.
    pub(crate) fn names(&mut self, names: &[&str]) -> Option<Vec<String>> {
        let entry = self.take(names)?;
        if matches!(entry.value, Value::Nothing) {
            return None;
        }
        let items = items(&entry, split_names, &mut self.found);
        Some(items.into_iter().map(|item| item.text).collect())
    }

    /// The fields of a field.
    pub(crate) fn map(&mut self, names: &[&str]) -> Option<Self> {
        let entry = self.take(names)?;
        match entry.value {
            Value::Nothing => None,
            Value::Map(entries) => Some(Self::new(&entry.name, entries)),
            _ => {
                self.wrong(&entry, "a map of fields");
                None
            }
        }
    }

    /// Notes the fields that were not read.
    pub(crate) fn finish(self, vocabulary: &Vocabulary) -> Found {
        let Self { left, mut found } = self;
        let whose = vocabulary.whose;
        for (key, entry) in left {
            let is_among = |names: &[&str]| names.iter().any(|name| key_of(name) == key);
            if is_among(vocabulary.shown) {
                continue;
            }
            let problem = match nearest(&key, vocabulary.known) {
                _ if is_among(vocabulary.idle) => "has no effect in Cairn".to_owned(),
                Some(near) => format!("is no field of {whose}, did you mean {near}?"),
                None => format!("is no field of {whose}"),
            };
            found.warn(entry.line, &entry.name, problem);
        }
        found
    }
}

/// The texts of a list, or the parts of one text.
pub(crate) fn items(entry: &Entry, split: fn(&str) -> Vec<&str>, found: &mut Found) -> Vec<Item> {
    const ALLOWED: &str = "a list of names, or names with commas between them";
    let (line, name) = (entry.line, entry.name.as_str());
    let mut items = Vec::new();
    match &entry.value {
        Value::Text(text) => items.extend(split(text).into_iter().map(|part| Item {
            line,
            text: part.to_owned(),
        })),
        Value::List(nodes) => {
            for node in nodes {
                match &node.value {
                    Value::Text(text) if !text.trim().is_empty() => items.push(Item {
                        line: node.line,
                        text: text.trim().to_owned(),
                    }),
                    other => {
                        let problem = format!("has an item that {}", shown(other));
                        found.error(node.line, name, problem, ALLOWED);
                    }
                }
            }
        }
        other => found.error(line, name, shown(other), ALLOWED),
    }
    let long = items.iter().find(|item| item.text.len() > MAX_ITEM);
    if let Some(long) = long {
        let problem = format!("has a name of {} bytes", long.text.len());
        found.error(long.line, name, problem, format!("at most {MAX_ITEM}"));
    }
    if items.len() > MAX_ITEMS {
        let problem = format!("has {} names", items.len());
        found.error(line, name, problem, format!("at most {MAX_ITEMS}"));
        items.truncate(MAX_ITEMS);
    }
    items.retain(|item| item.text.len() <= MAX_ITEM);
    items
}

/// The names in a text: with commas between them, or with blanks if there is no comma.
pub(crate) fn split_names(text: &str) -> Vec<&str> {
    let has_commas = text.contains(',');
    let is_between = |c: char| match has_commas {
        true => c == ',',
        false => c.is_whitespace(),
    };
    let parts = text.split(is_between).map(str::trim);
    parts.filter(|part| !part.is_empty()).collect()
}

/// A decimal number as a whole number of its smallest part.
fn scaled(number: &str, decimals: usize) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(part) {
        return None;
    }
    let part = &part[..part.len().min(decimals)];
    format!("{whole}{part:0<decimals$}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_whole_numbers_of_their_smallest_part() {
        for (number, decimals, whole) in [
            ("0.3", 3, Some(300)),
            ("2", 3, Some(2000)),
            ("0.0005", 3, Some(0)),
            ("1.23456", 3, Some(1234)),
            ("2.5", 9, Some(2_500_000_000)),
            ("7.9", 0, Some(7)),
            ("-1", 3, None),
            ("1.", 3, None),
            (".5", 3, None),
            ("inf", 3, None),
            ("1e3", 3, None),
            ("99999999999999999999", 3, None),
        ] {
            assert_eq!(scaled(number, decimals), whole, "{number}");
        }
    }

    #[test]
    fn a_text_is_split_into_names() {
        assert_eq!(split_names("a, b c,,d "), ["a", "b c", "d"]);
        assert_eq!(split_names(" a  b\n"), ["a", "b"]);
        assert!(split_names("").is_empty());
    }
}
