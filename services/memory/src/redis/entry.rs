//! Entries of session memory in a hash.
//!
//! The value of a key is in the field of its name. The rest of the entry is in a field of its own, which versions
//! before did not have: the time of creation, that of the last set (both 0 if they are not known), the bytes of the
//! metadata, and the metadata as a JSON object (nothing without metadata), with blanks between them.

use super::script::{Odd, Reply};
use crate::metadata::{self, of_text, to_text};
use crate::port::MemoryEntry;
use bytes::Bytes;
use std::collections::BTreeMap;

/// No key has a control character.
const REST: char = '\0';

/// The field that has the rest of a key's entry. The scripts know it, too.
pub(super) fn rest_field(key: &str) -> String {
    format!("{REST}{key}")
}

/// The rest of an entry, as the field has it.
pub(super) fn rest_of(entry: &MemoryEntry) -> String {
    let [created, updated] =
        [entry.created_unix_ms, entry.updated_unix_ms].map(Option::unwrap_or_default);
    let bytes = metadata::bytes(&entry.metadata);
    let metadata = to_text(&entry.metadata).unwrap_or_default();
    format!("{created} {updated} {bytes} {metadata}")
}

/// An entry of what its two fields have.
pub(super) fn entry(key: String, value: String, rest: Option<&str>) -> Result<MemoryEntry, Odd> {
    let mut parts = rest.unwrap_or("0 0 0 ").splitn(4, ' ');
    let mut next = || parts.next().ok_or(Odd);
    let time = |text: &str| text.parse::<i64>().map_err(|_| Odd);
    let (created, updated) = (time(next()?)?, time(next()?)?);
    let (_, metadata) = (next()?, next()?);
    let metadata = Some(metadata).filter(|text| !text.is_empty());
    let known = |time: i64| Some(time).filter(|&time| time > 0);
    Ok(MemoryEntry {
        key,
        value,
        metadata: of_text(metadata).map_err(|_| Odd)?,
        created_unix_ms: known(created),
        updated_unix_ms: known(updated),
    })
}

/// The entries of a whole hash, as pairs of fields and values.
pub(super) fn entries(mut pairs: Reply) -> Result<Vec<MemoryEntry>, Odd> {
    let (mut values, mut rests) = (Vec::with_capacity(pairs.len() / 4), BTreeMap::new());
    while pairs.len() > 0 {
        let (field, value) = (pairs.text()?, pairs.text()?);
        match field.strip_prefix(REST) {
            Some(key) => {
                rests.insert(key.to_owned(), value);
            }
            None => values.push((field, value)),
        }
    }
    let entries = values.into_iter().map(|(key, value)| {
        let rest = rests.remove(&key);
        entry(key, value, rest.as_deref())
    });
    entries.collect()
}

/// A text that Redis has.
pub(super) fn text(bytes: Bytes) -> Result<String, Odd> {
    String::from_utf8(bytes.into()).map_err(|_| Odd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis::Value;

    fn reply(texts: &[&str]) -> Reply {
        let values = texts.iter().map(|text| Value::BulkString((*text).into()));
        Reply::of(values.collect())
    }

    fn whole() -> MemoryEntry {
        MemoryEntry {
            key: "k".to_owned(),
            value: "v".to_owned(),
            metadata: [("a b".to_owned(), "c d".to_owned())].into(),
            created_unix_ms: Some(1),
            updated_unix_ms: Some(2),
        }
    }

    #[test]
    fn an_entry_is_the_same_after_its_way_there_and_back() {
        let plain = MemoryEntry {
            metadata: BTreeMap::new(),
            created_unix_ms: None,
            ..whole()
        };
        for stored in [whole(), plain] {
            let rest = rest_of(&stored);
            let read = entry("k".to_owned(), "v".to_owned(), Some(&rest));
            assert_eq!(read, Ok(stored));
        }
        assert_eq!(rest_of(&whole()), "1 2 6 {\"a b\":\"c d\"}");
    }

    #[test]
    fn what_a_version_before_stored_has_no_rest_and_what_it_removed_leaves_one() {
        let (field, rest) = (rest_field("k"), rest_of(&whole()));
        let pairs = reply(&[
            "old",
            "v",
            &field,
            &rest,
            "k",
            "v",
            &rest_field("gone"),
            &rest,
        ]);
        let old = MemoryEntry {
            key: "old".to_owned(),
            value: "v".to_owned(),
            ..MemoryEntry::default()
        };
        assert_eq!(entries(pairs), Ok(vec![old, whole()]));
        for odd in ["", "1", "1 2 6", "x 2 6 ", "1 2 6 {"] {
            let read = entry("k".to_owned(), "v".to_owned(), Some(odd));
            assert_eq!(read, Err(Odd), "{odd}");
        }
    }
}
