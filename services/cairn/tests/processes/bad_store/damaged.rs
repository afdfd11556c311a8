//! Stores with damaged events, and stores whose write-ahead log is lost.

use super::{CAIRN, SERVE, check_done, check_failed};
use cairn_testkit::Site;
use std::fs;
use std::path::{Path, PathBuf};

fn run(site: &Site, session: &str, title: &str) {
    let plan = format!(
        r#"{{"steps": [{{"title": "{title}", "tool": "list_files", "arguments": {{"path": "docs"}}}}]}}"#
    );
    site.write("plan.json", &plan);
    check_done(&site.run(&["run", "--plan", "plan.json", "--session", session]));
}

fn store_of(site: &Site) -> PathBuf {
    site.store()
}

/// Changes a letter of a text wherever the file has it. Answers how often that was.
fn flip(path: &Path, text: &str) -> usize {
    let mut file = fs::read(path).expect("a store");
    let found = file.windows(text.len()).enumerate();
    let places: Vec<_> = found
        .filter(|(_, bytes)| *bytes == text.as_bytes())
        .map(|(place, _)| place)
        .collect();
    for place in &places {
        file[*place] ^= 1;
    }
    fs::write(path, file).expect("a store");
    places.len()
}

#[test]
fn a_damaged_event_is_named_by_doctor_and_by_commands_that_read_it() {
    let site = Site::new(CAIRN);
    run(&site, "whole", "an apple");
    run(&site, "damaged", "a pear");
    let healthy = site.run(&["doctor"]);
    assert_eq!(healthy.code, Some(0), "{healthy:?}");
    assert!(flip(&store_of(&site), "a pear") > 0);

    let doctor = site.run(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    let fault = doctor.out.lines().find(|line| line.contains("is damaged"));
    let fault = fault.unwrap_or_else(|| panic!("no damage: {doctor:?}"));
    assert!(fault.contains("session \"damaged\""), "{fault}");
    let seq = fault.split_once(": event ").expect("an event").1;
    let seq = seq.split(' ').next().expect("its number");
    assert!(!doctor.out.contains("session \"whole\""), "{doctor:?}");
    println!("{}", doctor.out);

    let event = format!("event {seq} is damaged");
    for arguments in [&["export", "damaged"][..], &["show", "damaged"]] {
        check_failed(&site.run(arguments), 1, &["session \"damaged\"", &event]);
    }
    check_done(&site.run(&["export", "whole"]));
    check_done(&site.run(&["sessions"]));
    run(&site, "another", "a plum");
}

#[test]
fn a_store_that_lost_its_log_is_refused_until_the_loss_is_accepted() {
    let site = Site::new(CAIRN);
    run(&site, "before", "a pear");
    // Killed, so the store was not closed.
    drop(site.start(&SERVE, &[]));
    let store = store_of(&site);
    let log = store.with_extension("db-wal");
    fs::rename(&log, site.path().join("wal")).expect("a log");
    let says = ["cairn.db\" was not closed", "cairn.db-wal\" is missing"];
    let again = ["run", "--plan", "plan.json"];
    for arguments in [&["sessions"][..], &again, &["export", "before"], &SERVE] {
        check_failed(&site.run(arguments), 1, &says);
    }
    let doctor = site.run(&["doctor"]);
    assert_eq!(doctor.code, Some(1), "{doctor:?}");
    assert!(doctor.out.contains("was not closed"), "{doctor:?}");
    assert!(
        doctor.out.contains("cairn doctor --accept-loss"),
        "{doctor:?}"
    );

    // Put back, it is no loss.
    fs::rename(site.path().join("wal"), &log).expect("a log");
    check_done(&site.run(&["doctor"]));
    fs::remove_file(&log).expect("a log");
    check_failed(&site.run(&["sessions"]), 1, &says);
    check_done(&site.run(&["doctor", "--accept-loss"]));
    check_done(&site.run(&["sessions"]));
    run(&site, "after", "a plum");
}

#[test]
fn a_log_without_its_store_makes_no_new_store() {
    let site = Site::new(CAIRN);
    run(&site, "before", "a pear");
    drop(site.start(&SERVE, &[]));
    let store = store_of(&site);
    let moved = site.path().join("cairn.db");
    fs::rename(&store, &moved).expect("a store");
    let says = ["is missing or empty", "cairn.db-wal"];
    let again = ["run", "--plan", "plan.json"];
    for arguments in [&["sessions"][..], &again, &SERVE] {
        check_failed(&site.run(arguments), 1, &says);
        assert!(!store.exists());
    }
    assert_eq!(site.run(&["doctor"]).code, Some(1));
    fs::rename(&moved, &store).expect("a store");
    check_done(&site.run(&["export", "before"]));
}
