//! Events for tests.

use cairn_proto::event::Event;
use prost::Message as _;
use std::fs;
use std::path::Path;

/// The events that the contracts' own tests keep, at least one of each kind with every field
/// filled in: name (the kind, and the variant after a point), bytes, event.
pub(crate) fn golden() -> Vec<(String, Vec<u8>, Event)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/proto/tests/golden");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let read = |path: std::path::PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let bytes = fs::read(&path).unwrap();
        let event = Event::decode(bytes.as_slice()).unwrap();
        (name, bytes, event)
    };
    let events: Vec<_> = files.map(read).collect();
    assert!(!events.is_empty());
    events
}
