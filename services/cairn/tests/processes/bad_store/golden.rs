//! A file that was ever a store is one for ever: those in `golden` are never changed, and a change of
//! the format adds one. Beside each is the journal of its one session as it was exported then. The run
//! in it was killed after its first call with side effects.
//!
//! `CAIRN_GOLDEN=write cargo nextest run -p cairn --test bad_store -E 'test(golden)'` writes those of
//! this version into the folder of the build, and says where.

use super::{CAIRN, check_failed};
use cairn_boot::Environment;
use cairn_testkit::{Journal, Site};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const STORED: &[u8] = include_bytes!("golden/1.db");
const EXPORTED: &str = include_str!("golden/1.jsonl");
const SESSION: &str = "golden";
const PLAN: &str = r#"{"steps": [
  {"title": "Record one", "tool": "record", "arguments": {"what": "one"}},
  {"title": "Look", "tool": "look", "arguments": {"what": "around"}},
  {"title": "Record two", "tool": "record", "arguments": {"what": "two"}}
]}"#;
/// Where a file of SQLite says which version of its application wrote it.
const VERSION: std::ops::Range<usize> = 60..64;

fn store_of(site: &Site) -> PathBuf {
    site.store()
}

/// A site whose store is this file.
fn site_with(file: &[u8]) -> Site {
    let site = Site::new(CAIRN);
    let store = store_of(&site);
    fs::create_dir_all(store.parent().expect("a folder")).expect("a folder");
    fs::write(store, file).expect("a file");
    site
}

#[test]
fn golden_files_are_read_and_gone_on_with() {
    let site = site_with(STORED);
    let then = Journal::read(EXPORTED);
    let before = site.journal(SESSION);
    before.check_begins_with(&then);
    assert_eq!(before.0.len(), then.0.len(), "as it was exported then");
    let kept = site.run(&["memory", "get", "colour", "--session", SESSION]);
    assert_eq!(kept.out.trim(), "blue", "{kept:?}");
    let resumed = site.run(&["resume", SESSION]);
    assert_eq!(resumed.code, Some(0), "{resumed:?}");
    let now = site.journal(SESSION);
    now.check();
    now.check_begins_with(&before);
    assert_eq!(now.of_kind("run_completed").len(), 1);
    let times = ["one", "two"].map(|what| site.ledger().times(&format!(r#"{{"what":"{what}"}}"#)));
    assert_eq!(times, [0, 1], "what had been done is not done again");
}

#[test]
fn a_file_of_a_later_format_is_refused_and_left_alone() {
    let mut later = STORED.to_vec();
    let version = &mut later[VERSION];
    assert_eq!(version, 1_u32.to_be_bytes());
    version.copy_from_slice(&2_u32.to_be_bytes());
    let site = site_with(&later);
    let resumed = site.run(&["resume", SESSION]);
    check_failed(&resumed, 1, &["cairn.db\" has format 2", "up to 1"]);
    assert_eq!(fs::read(store_of(&site)).expect("the file"), later);
}

#[test]
fn golden_files_can_be_written() {
    let site = Site::new(CAIRN);
    site.write("plan.json", PLAN);
    let run = [
        "run",
        "--plan",
        "plan.json",
        "--session",
        SESSION,
        "--request-id",
        "r-1",
    ];
    let killed = site.run_with(&run, &[("CAIRN_FAIL_COMMIT", "after:4")]);
    assert_eq!(killed.code, None, "{killed:?}");
    site.wait_for_programs();
    let set = ["memory", "set", "colour", "blue", "--session", SESSION];
    let set = site.run(&set);
    assert_eq!(set.code, Some(0), "{set:?}");
    let exported = site.run(&["export", SESSION]).out;
    let journal = Journal::read(&exported);
    assert_eq!(site.ledger().times(r#"{"what":"one"}"#), 1);
    assert!(journal.of_kind("run_completed").is_empty(), "{exported}");
    let stored = whole(&store_of(&site));
    if Environment::from_process().get("CAIRN_GOLDEN").is_some() {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        fs::write(folder.join("1.db"), stored).expect("a file");
        fs::write(folder.join("1.jsonl"), exported).expect("a file");
        panic!("written to {}", folder.display());
    }
    // What this version writes is what it has always written.
    assert_eq!(stored[VERSION], STORED[VERSION]);
    let kinds = |journal: &Journal| -> Vec<Value> {
        let kinds = journal.0.iter().map(|event| event["kind"].clone());
        // The first version had no pool.
        kinds.filter(|kind| kind != "attempt_placed").collect()
    };
    assert_eq!(kinds(&journal), kinds(&Journal::read(EXPORTED)));
}

/// A store that nobody holds is one file, without a log beside it.
fn whole(store: &Path) -> Vec<u8> {
    let log = store.with_extension("db-wal");
    let log = fs::metadata(log).map_or(0, |it| it.len());
    assert_eq!(log, 0, "the log has been taken up");
    fs::read(store).expect("a file")
}
