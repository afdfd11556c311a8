//! `cairn knowledge`: files are stored as pages, and pages found, listed, shown and deleted.

use crate::support::CAIRN;
use crate::support::screen::Screen;
use cairn_testkit::{Output, Site};
use serde_json::Value;
use std::io::Write as _;
use std::process::Stdio;

const KEYS: &str = "---\ntitle: Rotate the keys\ntags: [security, ops]\n---\n\
    Run `rotate` at the first of each month.\n";
const BACKUP: &str = "# Backups\n\nThe archive goes to tape, and the keys to a safe.\n";

fn site() -> Site {
    let site = Site::new(CAIRN);
    site.write("notes/keys.md", KEYS);
    site.write("notes/deep/backup.md", BACKUP);
    site
}

fn lines(out: &str) -> Vec<Value> {
    let lines = out.lines();
    let values = lines.map(|line| serde_json::from_str(line).expect("a line of JSON"));
    values.collect()
}

/// Stores the text of standard input.
fn put_input(site: &Site, more: &[&str], text: &str) -> Output {
    let mut command = site.command(&[&["knowledge", "put", "-"], more].concat());
    let command = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program can be started");
    let mut stdin = child.stdin.take().expect("its input");
    stdin
        .write_all(text.as_bytes())
        .expect("it reads its input");
    drop(stdin);
    let done = child.wait_with_output().expect("its end");
    Output {
        code: done.status.code(),
        signal: None,
        out: String::from_utf8_lossy(&done.stdout).into_owned(),
        err: String::from_utf8_lossy(&done.stderr).into_owned(),
    }
}

#[test]
fn a_folder_is_stored_and_put_again_replaces_its_pages() {
    let site = site();
    let put = ["knowledge", "put", "notes"];
    let done = site.run(&put);
    let expected = "page deep/backup is stored, version 1\n\
                    page keys is stored, version 2\n2 pages are stored\n";
    assert_eq!(
        (done.code, done.out.as_str()),
        (Some(0), expected),
        "{done:?}"
    );
    let done = site.run(&[&put[..], &["--tag", "notes", "--json"]].concat());
    let stored = lines(&done.out);
    assert_eq!(stored[0]["id"], "deep/backup");
    assert_eq!(stored[1]["version"], 4);
    assert_eq!(stored[1]["path"], "notes/keys.md");
    assert_eq!(
        stored[1]["tags"],
        serde_json::json!(["notes", "ops", "security"])
    );

    let done = site.run(&["knowledge", "list", "--json"]);
    let listed = lines(&done.out);
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert_eq!(listed[0]["title"], "Backups");
    let done = site.run(&["knowledge", "list"]);
    assert!(done.out.starts_with("PAGE "), "{done:?}");
    assert!(done.out.contains("notes, ops, security"), "{done:?}");

    let done = site.run(&["knowledge", "show", "keys"]);
    assert!(
        done.out.starts_with("Rotate the keys\nkeys, version 4, "),
        "{done:?}"
    );
    let text = "\n\nRun `rotate` at the first of each month.\n";
    assert!(done.out.ends_with(text), "{done:?}");
    let done = site.run(&["knowledge", "show", "keys", "--json"]);
    let shown = &lines(&done.out)[0];
    assert_eq!(shown["text"], text.trim());
    assert_eq!(shown["version"], 4);
}

#[test]
fn pages_are_found_by_words_tags_and_score() {
    let site = site();
    site.run(&["knowledge", "put", "notes"]);
    let search = |more: &[&str]| {
        let done = site.run(&[&["knowledge", "search"], more].concat());
        assert_eq!(done.code, Some(0), "{done:?}");
        done.out
    };
    let hits = lines(&search(&["when", "to", "rotate", "keys", "--json"]));
    assert_eq!(hits[0]["id"], "keys");
    assert_eq!(hits[0]["rank"], 1);
    assert_eq!(hits[1]["id"], "deep/backup");
    let scores = [0, 1].map(|at: usize| hits[at]["score"].as_f64().expect("a score"));
    assert!(scores[0] <= 1.0, "{scores:?}");
    assert!(scores[0] > scores[1], "{scores:?}");
    assert!(scores[1] > 0.0, "{scores:?}");
    assert_eq!(hits[0].get("text"), None);

    let shown = search(&["rotate keys"]);
    assert!(shown.starts_with(" 1  0."), "{shown}");
    for part in [
        "  Rotate the keys\n",
        " keys  [ops, security]  ",
        "\n\n 2  0.",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let tagged = lines(&search(&["keys", "--tag", "ops", "--json"]));
    assert_eq!(tagged.len(), 1, "{tagged:?}");
    assert_eq!(lines(&search(&["keys", "--max", "1", "--json"])).len(), 1);
    let between = ((scores[0] + scores[1]) / 2.0).to_string();
    let least = [
        "when to rotate keys",
        "--min-score",
        between.as_str(),
        "--json",
    ];
    assert_eq!(lines(&search(&least)).len(), 1);

    let none = search(&["lighthouse", "--tag", "ops"]);
    let said = "no page was found for \"lighthouse\"\n  try it with other words, or without --tag\n  \
                see the pages with: cairn knowledge list\n";
    assert_eq!(none, said);
    assert_eq!(search(&["lighthouse", "--json"]), "");
}

#[test]
fn a_search_without_hits_says_why() {
    let site = site();
    site.run(&["knowledge", "put", "notes"]);
    let search = |more: &[&str]| {
        let done = site.run(&[&["knowledge", "search"], more].concat());
        assert_eq!(done.code, Some(0), "{done:?}");
        done.out
    };
    let common = search(&["how", "is", "the"]);
    assert!(common.contains("only common words"), "{common}");

    site.append("cairn.toml", "\n[knowledge]\nmin_score = 0.99\n");
    let hidden = search(&["keys lighthouse"]);
    let said = "knowledge.min_score of the settings; see them with --min-score 0\n";
    assert!(hidden.contains(said), "{hidden}");
    let all = search(&["keys lighthouse", "--min-score", "0", "--json"]);
    assert_eq!(lines(&all).len(), 2, "{all}");
    let none = search(&["lighthouse"]);
    assert!(none.contains("try it with other words\n"), "{none}");
}

#[test]
fn a_page_whose_id_says_too_little_is_named_by_its_title() {
    let site = Site::new(CAIRN);
    site.write("notes/密钥.md", "Text.\n");
    let done = site.run(&["knowledge", "put", "notes"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(
        done.out.ends_with(" is stored, version 1: 密钥\n"),
        "{done:?}"
    );
    let done = put_input(&site, &[], BACKUP);
    assert!(
        done.out.ends_with(" is stored, version 2: Backups\n"),
        "{done:?}"
    );
}

#[test]
fn the_text_of_standard_input_is_a_page() {
    let site = Site::new(CAIRN);
    let done = put_input(&site, &["--id", "tape", "--tag", "ops"], BACKUP);
    let expected = "page tape is stored, version 1\n".to_owned();
    assert_eq!((done.code, done.out), (Some(0), expected), "{}", done.err);
    let done = put_input(&site, &["--json"], BACKUP);
    let stored = &lines(&done.out)[0];
    assert_eq!(stored["path"], Value::Null);
    assert_eq!(stored["title"], "Backups");
    let id = stored["id"].as_str().expect("an id of its own");
    assert_eq!(site.run(&["knowledge", "show", id]).code, Some(0));
    let done = put_input(&site, &[], "No heading.\n");
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.err.contains("--title"), "{done:?}");
}

#[test]
fn nothing_is_stored_if_a_file_cannot_be_a_page() {
    let site = site();
    let put = |named: &str| {
        let done = site.run(&["knowledge", "put", "notes"]);
        assert_eq!((done.code, done.out.as_str()), (Some(2), ""), "{done:?}");
        assert!(done.err.contains(named), "{named}: {done:?}");
    };
    site.write("notes/keys.txt", "Keys.\n");
    put("2 files would be the page keys: notes/keys.md, notes/keys.txt");
    site.write("notes/keys.txt", "");
    std::fs::rename(
        site.path().join("notes/keys.txt"),
        site.path().join("notes/empty.txt"),
    )
    .expect("a file");
    put("notes/empty.txt: has no text");
    let done = site.run(&["knowledge", "put", "none.md"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.err.contains("none.md: cannot be read"), "{done:?}");
    assert!(!site.has_store(), "a file is read before a store is made");
}

#[test]
fn a_page_is_deleted_once_a_person_at_a_terminal_agrees() {
    let site = site();
    let delete = ["knowledge", "delete", "keys"];
    let put = || site.run(&["knowledge", "put", "notes/keys.md"]);
    assert_eq!(put().code, Some(0));
    let mut screen = Screen::of(&mut site.command(&delete));
    screen.wait_for("Delete the page keys? [y/N] ");
    screen.types("n\r");
    screen.wait_for("nothing was changed");
    let mut screen = Screen::of(&mut site.command(&[&delete[..], &["--yes"]].concat()));
    screen.wait_for("page keys is deleted");
    assert_eq!(screen.child.wait().expect("its end").code(), Some(0));

    for command in [&delete[..], &["knowledge", "show", "keys"]] {
        let done = site.run(command);
        assert_eq!(done.code, Some(1), "{done:?}");
        assert!(done.err.contains("\"keys\" does not exist"), "{done:?}");
        assert!(done.err.contains("cairn knowledge list"), "{done:?}");
    }
    let done = site.run(&["knowledge", "list"]);
    let none = "there is no page; store one with: cairn knowledge put FILE\n";
    assert_eq!(done.out, none);
}

#[test]
fn many_pages_move_in_one_line_of_a_terminal() {
    let site = Site::new(CAIRN);
    for number in 1..=25 {
        site.write(&format!("many/{number}.md"), "Text.\n");
    }
    let mut screen = Screen::of(&mut site.command(&["knowledge", "put", "many"]));
    screen.wait_for("storing 25 of 25: many/9.md");
    let shown = screen.wait_for("25 pages are stored");
    assert!(!shown.contains("is stored, version"), "{shown}");
    assert_eq!(screen.child.wait().expect("its end").code(), Some(0));
}
