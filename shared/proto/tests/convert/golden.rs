//! What was ever written decodes for ever: the files in `tests/golden` are never changed.
//!
//! A sample without a file gets one, and its test fails once, so that the file is checked in with
//! the kind that it is for.

use crate::samples::samples;
use crate::{decoded, descriptor, encoded};
use cairn_engine::level::LEVEL;
use cairn_proto::convert::{Decoded, decode_event, encode_stored_apart};
use prost_reflect::DynamicMessage;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const DIGEST: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The stored bytes; those given are stored if there are none, and nothing is returned.
fn stored(name: &str, bytes: &[u8]) -> Option<Vec<u8>> {
    let path = folder().join(format!("{name}.bin"));
    if !path.exists() {
        fs::write(&path, bytes).unwrap();
        return None;
    }
    Some(fs::read(path).unwrap())
}

fn stored_apart() -> Vec<u8> {
    encode_stored_apart(1_760_000_000_000, 1, Vec::new(), DIGEST.to_owned(), 70_000)
}

#[test]
fn stored_events_decode_and_encode_to_the_same_bytes() {
    let mut written = Vec::new();
    for (name, event) in samples() {
        let Some(bytes) = stored(name, &encoded(&event)) else {
            written.push(name);
            continue;
        };
        assert_eq!(decoded(&bytes), event, "{name}");
        assert_eq!(encoded(&event), bytes, "{name}");
    }
    assert!(written.is_empty(), "written, to be checked in: {written:?}");
}

#[test]
fn an_event_stored_apart_decodes_and_encodes_to_the_same_bytes() {
    let bytes = stored("stored_apart", &stored_apart()).expect("written, to be checked in");
    let expected = Decoded::StoredApart {
        digest: DIGEST.to_owned(),
        size: 70_000,
    };
    assert_eq!(decode_event(&bytes, LEVEL), Ok(expected));
    assert_eq!(stored_apart(), bytes);
}

/// The choices of a message, without those in `but`.
fn choices(message: &str, but: &[&str]) -> BTreeSet<String> {
    let message = descriptor(message);
    let choices = message
        .fields()
        .filter(|field| field.containing_oneof().is_some());
    let names = choices.map(|field| field.name().to_owned());
    names.filter(|name| !but.contains(&name.as_str())).collect()
}

#[test]
fn every_kind_of_event_and_command_has_a_sample() {
    let names: Vec<_> = samples().into_iter().map(|(name, _)| name).collect();
    let kinds = names.iter().filter_map(|name| name.split('.').next());
    let kinds: BTreeSet<_> = kinds.map(str::to_owned).collect();
    let missing = choices("Event", &["stored_apart"]);
    let missing: Vec<_> = missing.difference(&kinds).collect();
    assert!(missing.is_empty(), "events without a sample: {missing:?}");
    let commands = names.iter();
    let commands = commands.filter_map(|name| name.strip_prefix("command_received."));
    let commands = commands.filter_map(|name| name.split('.').next());
    let commands: BTreeSet<_> = commands.map(str::to_owned).collect();
    let missing = choices("Command", &[]);
    let missing: Vec<_> = missing.difference(&commands).collect();
    assert!(missing.is_empty(), "commands without a sample: {missing:?}");
}

#[test]
fn every_sample_is_named_for_its_kind_and_every_file_has_one() {
    let mut names = BTreeSet::from(["stored_apart".to_owned()]);
    for (name, event) in samples() {
        let message = DynamicMessage::decode(descriptor("Event"), &*encoded(&event)).unwrap();
        let kind = message
            .fields()
            .find(|(field, _)| field.containing_oneof().is_some());
        let kind = kind.unwrap().0.name().to_owned();
        assert_eq!(name.split('.').next(), Some(&*kind));
        names.insert(name.to_owned());
    }
    let files = fs::read_dir(folder()).unwrap();
    let files: BTreeSet<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .map(|file| file.trim_end_matches(".bin").to_owned())
        .collect();
    assert_eq!(files, names);
}
