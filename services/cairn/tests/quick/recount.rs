//! What the offline model cites of a folder, looked up again. The program works with its real tools.

use crate::support::CAIRN;
use cairn_testkit::Site;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A file's path and bytes.
type File = (&'static str, &'static [u8]);

const SOURCES: [File; 5] = [
    (
        "README.md",
        b"# Net\n\nA client with a timeout.\n\n## Limits\n\nEvery call has a Timeout.\n",
    ),
    (
        "src/client.rs",
        b"//! Asking.\n\npub struct Client {\n    timeout: Duration,\n}\n",
    ),
    (".hidden", b"timeout\n"),
    (".gitignore", b"target\n"),
    ("target/built.rs", b"const TIMEOUT: u8 = 1;\n"),
];

const BROKEN: [File; 6] = [
    ("blob.bin", b"\0\x01\x02timeout\n"),
    (
        "broken.txt",
        b"good line\nbad \xff\xfe line with timeout\n\xe6\x95 half, timeout\n",
    ),
    ("crlf.txt", b"timeout one\r\nno\r\n"),
    ("last.txt", b"no line end after timeout"),
    ("a\tb: \"c\".txt", b"timeout\n"),
    ("quoted.txt", b"a `timeout` in ``quotes`` \\ and | a bar\n"),
];

/// Works towards a goal in a folder. The places that the report cites, each with a line that is there.
fn cited(files: &[File], goal: &str) -> BTreeSet<String> {
    let site = Site::new(CAIRN);
    let folder = site.path().join("folder");
    fs::create_dir(&folder).expect("a folder");
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("a file");
    }
    let done = site.run(&["run", "--in", "folder", goal]);
    assert_eq!(done.code, Some(0), "{goal}: {done:?}");
    let reports = fs::read_dir(site.path().join("cairn-out")).expect("a folder");
    let reports: Vec<_> = reports.map(|it| it.expect("a file").path()).collect();
    assert_eq!(reports.len(), 1, "{reports:?}");
    let report = fs::read_to_string(&reports[0]).expect("a report");
    let named = format!("report  {}", reports[0].file_name().unwrap().display());
    assert!(
        done.out.replace("cairn-out/", "").contains(&named),
        "{named}: {done:?}"
    );
    assert!(report.contains(&format!("Goal: {goal}")), "{report}");
    let quoted = report.lines().filter_map(|line| line.strip_prefix("    "));
    let quoted = quoted.filter(|line| !line.ends_with(" bytes"));
    quoted.map(|line| place(&folder, line)).collect()
}

/// The place that a line of a report names, if the file has that line there.
fn place(folder: &Path, line: &str) -> String {
    let read = |(at, _): (usize, &str)| {
        let (path, number) = line[..at].rsplit_once(':')?;
        Some((path, number.parse::<usize>().ok()?, &line[at + 2..]))
    };
    let (path, number, text) = line.match_indices(": ").find_map(read).expect("a place");
    // The tools quote what a line cannot hold.
    let name = match path.starts_with('"') {
        true => "a\tb: \"c\".txt",
        false => path,
    };
    let file = fs::read(folder.join(name)).expect("a file");
    let file = String::from_utf8_lossy(&file).into_owned();
    let cited = file.lines().nth(number - 1).expect("a line");
    assert_eq!(text, cited.trim(), "{line}");
    format!("{path}:{number}")
}

fn check(files: &[File], goal: &str, expected: &[&str]) {
    let expected = expected.iter().map(|place| (*place).to_owned());
    assert_eq!(cited(files, goal), expected.collect(), "{goal}");
}

#[test]
fn sources_are_searched() {
    let goal = "Which files mention timeout, and what do they say about it?";
    let lines = [
        "README.md:3",
        "README.md:7",
        "src/client.rs:3",
        "src/client.rs:4",
        "src/client.rs:5",
    ];
    check(&SOURCES, goal, &lines);
}

#[test]
fn sources_are_surveyed() {
    let lines = [
        "README.md:1",
        "README.md:3",
        "src/client.rs:1",
        "src/client.rs:3",
    ];
    check(&SOURCES, "Survey this folder", &lines);
}

#[test]
fn broken_text_and_odd_names_are_searched() {
    let lines = [
        "\"a\\tb: \\\"c\\\".txt\":1",
        "broken.txt:1",
        "broken.txt:2",
        "broken.txt:3",
        "crlf.txt:1",
        "crlf.txt:2",
        "last.txt:1",
        "quoted.txt:1",
    ];
    check(&BROKEN, "Which files mention timeout?", &lines);
}

#[test]
fn an_empty_folder_is_reported_to_be_empty() {
    for goal in ["Survey this folder", "Which files mention timeout?"] {
        check(&[], goal, &[]);
    }
}
