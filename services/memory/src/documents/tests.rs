use super::*;
use crate::port::{Collection, DocumentKind, Expected, Head};
use bytes::Bytes;

fn write(id: &str, value: Option<usize>, expected: Expected) -> DocumentWrite {
    DocumentWrite {
        collection: Collection::new("space", DocumentKind::Agent),
        id: id.to_owned(),
        value: value.map(|bytes| vec![7; bytes].into()),
        expected,
        operation_id: "operation".to_owned(),
    }
}

fn limits() -> Limits {
    Limits {
        documents: 2,
        collection_bytes: 10,
        ..Limits::default()
    }
}

/// Two documents of five bytes each, and one tombstone.
const FULL: Totals = Totals {
    counter: 9,
    floor: 1,
    documents: 2,
    bytes: 10,
    tombstones: 1,
};

const LIVING: Option<Found> = Some(Found {
    version: 7,
    value_bytes: Some(4),
});

const TOMBSTONE: Option<Found> = Some(Found {
    version: 8,
    value_bytes: None,
});

#[test]
fn a_write_changes_what_a_collection_adds_up_to() {
    let empty = Totals::default();
    let one = Totals {
        counter: 1,
        documents: 1,
        bytes: 5,
        ..empty
    };
    let emptier = Totals {
        documents: 1,
        bytes: 5,
        ..FULL
    };
    for (before, found, value, want) in [
        (empty, None, Some(4), Some(one)),
        (empty, None, None, None),
        (FULL, None, None, None),
        (FULL, TOMBSTONE, None, None),
        (
            FULL,
            LIVING,
            Some(3),
            Some(Totals {
                counter: 10,
                bytes: 9,
                ..FULL
            }),
        ),
        (
            FULL,
            LIVING,
            None,
            Some(Totals {
                counter: 10,
                documents: 1,
                bytes: 5,
                tombstones: 2,
                ..FULL
            }),
        ),
        (
            emptier,
            TOMBSTONE,
            Some(4),
            Some(Totals {
                counter: 10,
                tombstones: 0,
                ..FULL
            }),
        ),
    ] {
        let write = write("i", value, Expected::Any);
        let after = change(&before, found, &write, &limits());
        assert_eq!(after, Ok(want), "{before:?} {found:?} {value:?}");
    }
}

#[test]
fn a_write_is_refused_if_the_document_is_another_than_expected() {
    for (found, expected, has) in [
        (None, Expected::Version(7), 0),
        (LIVING, Expected::Absent, 7),
        (LIVING, Expected::Version(8), 7),
        (TOMBSTONE, Expected::Version(8), 0),
    ] {
        for value in [Some(1), None] {
            let write = write("i", value, expected);
            let refused = change(&FULL, found, &write, &limits());
            let want = StoreError::DocumentVersion { found: has };
            assert_eq!(refused, Err(want), "{found:?} {expected:?}");
        }
    }
    let again = write("i", Some(4), Expected::Absent);
    let emptier = Totals {
        documents: 1,
        bytes: 5,
        ..FULL
    };
    assert!(change(&emptier, TOMBSTONE, &again, &limits()).is_ok());
}

#[test]
fn only_growth_is_limited() {
    let larger = Totals {
        documents: 3,
        bytes: 20,
        ..FULL
    };
    for (before, found, value, want) in [
        (FULL, None, 0, Some(StoreError::limit(Limit::Documents, 2))),
        (
            FULL,
            LIVING,
            5,
            Some(StoreError::limit(Limit::CollectionBytes, 10)),
        ),
        (FULL, LIVING, 4, None),
        // As where the limits were lowered.
        (larger, LIVING, 4, None),
        (larger, LIVING, 0, None),
    ] {
        let write = write("i", Some(value), Expected::Any);
        let refused = change(&before, found, &write, &limits()).err();
        assert_eq!(refused, want, "{before:?} {value}");
    }
}

fn page(counter: u64, floor: u64, versions: &[u64], is_last: bool) -> DocumentPage {
    let document = |version: &u64| Document {
        id: version.to_string(),
        version: *version,
        changed_unix_ms: 0,
        value: Some(Bytes::new()),
    };
    DocumentPage {
        head: Head {
            incarnation: "one".to_owned(),
            counter,
            floor,
        },
        documents: versions.iter().map(document).collect(),
        is_last,
    }
}

fn at(incarnation: &str, counter: u64, since: u64) -> Position {
    Position {
        incarnation: incarnation.to_owned(),
        counter,
        since,
    }
}

#[test]
fn a_reader_without_a_position_begins_with_all_documents() {
    let first = advance(None, &page(9, 4, &[2, 3], false)).unwrap();
    assert_eq!(first, at("one", 3, 9));
    // Meanwhile tombstones of documents went that the reader never had.
    let second = advance(Some(&first), &page(12, 9, &[11], true)).unwrap();
    assert_eq!(second, at("one", 12, 9));
    assert_eq!(
        advance(Some(&first), &page(12, 10, &[11], true)),
        Err(StoreError::Relist)
    );
    assert_eq!(advance(None, &page(0, 0, &[], true)), Ok(at("one", 0, 0)));
}

#[test]
fn a_position_continues_only_where_no_change_is_missing() {
    let page = page(9, 4, &[], true);
    for (position, continues) in [
        (at("one", 9, 0), true),
        (at("one", 4, 0), true),
        (at("one", 3, 0), false),
        (at("one", 10, 0), false),
        (at("two", 9, 0), false),
        (at("", 9, 0), false),
    ] {
        let next = advance(Some(&position), &page);
        let want = match continues {
            true => Ok(at("one", 9, 0)),
            false => Err(StoreError::Relist),
        };
        assert_eq!(next, want, "{position:?}");
    }
}

#[test]
fn a_digest_is_of_all_that_a_write_says() {
    let writes = [
        write("a", Some(1), Expected::Any),
        write("b", Some(1), Expected::Any),
        write("a", Some(2), Expected::Any),
        write("a", Some(0), Expected::Any),
        write("a", None, Expected::Any),
        write("a", Some(1), Expected::Absent),
        write("a", Some(1), Expected::Version(1)),
    ];
    let digests: std::collections::BTreeSet<_> = writes.iter().map(digest).collect();
    assert_eq!(digests.len(), writes.len());
    let renamed = DocumentWrite {
        operation_id: "another".to_owned(),
        ..writes[0].clone()
    };
    assert_eq!(digest(&renamed), digest(&writes[0]));
}

#[test]
fn a_checksum_is_of_the_id_and_the_value() {
    let stored = |id: &str, value: Option<&'static str>| Document {
        id: id.to_owned(),
        version: 1,
        changed_unix_ms: 0,
        value: value.map(|value| Bytes::from_static(value.as_bytes())),
    };
    let one = sum("a", b"value");
    assert!(check(stored("a", Some("value")), Some(one)).is_ok());
    assert!(check(stored("a", None), None).is_ok());
    for (document, sum) in [
        (stored("b", Some("value")), Some(one)),
        (stored("a", Some("valuf")), Some(one)),
        (stored("a", Some("value")), None),
        (stored("a", None), Some(one)),
    ] {
        let damaged = StoreError::Damaged(Stored::Document(document.id.clone()));
        assert_eq!(check(document, sum), Err(damaged));
    }
}
