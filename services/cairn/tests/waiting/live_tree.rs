//! The execution tree as files, while a run continues: each call waits until the test lets it end,
//! and meanwhile the files say how far the run has got. In a file, and on Redis and on a cluster, where
//! commands come to a server.

use crate::support::{CAIRN, place};
use cairn_testkit::{Change, Changes, Site, TestStore, eventually};
use place::Place;
use rustix::fs::OFlags;
use serde_json::Value;
use std::fs::{self, OpenOptions};
use std::io::{Read as _, Seek as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// How many calls a run waits for.
const CALLS: usize = 3;

/// A tool that says when it has begun, and ends when it is told to.
const GATE: &str = r#"
[[tools.commands]]
name = "gate"
description = "Waits at a gate."
argv = ["sh", "gate.sh"]
effect = "pure"
time_limit_ms = 60000
parameters = { type = "object" }
"#;

const SCRIPT: &str = "set -eu\necho begun >begun\nread -r _ <go\necho passed\n";

fn over(store: TestStore) -> Place {
    let mut place = Place::over(store);
    let site = &place.site;
    site.append("cairn.toml", GATE);
    site.write("gate.sh", SCRIPT);
    let step = r#"{"tool": "gate", "arguments": {}}"#;
    let plan = [step; CALLS].join(", ");
    site.write("plan.json", &format!("{{\"steps\": [{plan}]}}"));
    for pipe in ["begun", "go"] {
        let made = Command::new("mkfifo").arg(site.path().join(pipe)).status();
        assert!(made.expect("mkfifo can be started").success());
    }
    serve(&mut place);
    place
}

/// In a file, whoever gives a command carries it out.
fn serve(place: &mut Place) {
    if !place.is_file() {
        place.keep_serving();
    }
}

fn start(place: &Place, arguments: &[&str]) -> Child {
    let mut command = place.site.command(&place.to_server(arguments));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().expect("the program can be started")
}

fn start_run(place: &Place, flags: &[&str]) -> Child {
    let run = ["run", "--session", "s", "--plan", "plan.json"];
    start(place, &[&run, flags].concat())
}

/// Opening a pipe waits for the other side: a call is under way then.
fn wait_for_call(site: &Site) {
    let begun = fs::read_to_string(site.path().join("begun"));
    assert_eq!(begun.expect("a call begins"), "begun\n");
}

fn let_call_end(site: &Site) {
    fs::write(site.path().join("go"), "go\n").expect("the call continues");
}

/// The program of a process that was killed ends, too. Then nobody opens the pipe to read.
fn wait_for_end_of_program(site: &Site) {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    eventually("the end of the program", || {
        let mut options = OpenOptions::new();
        let opened = options
            .write(true)
            .custom_flags(flags)
            .open(site.path().join("go"));
        opened.is_err().then_some(())
    });
}

/// A folder with the tree in it.
struct Dump {
    changes: Changes,
    text: std::path::PathBuf,
    json: std::path::PathBuf,
}

impl Dump {
    /// The folder must be there before anybody can watch it.
    fn at(folder: &Path) -> Self {
        fs::create_dir_all(folder).expect("a folder");
        Self {
            changes: Changes::of(folder),
            text: folder.join("tree.txt"),
            json: folder.join("tree.json"),
        }
    }

    /// Waits until both files say that so many steps are done and the next one is under way. Every
    /// text that stands there meanwhile is whole, and nobody writes into a file that can be read.
    fn wait_for(&mut self, done: usize) {
        loop {
            let (name, change) = self.changes.next_change();
            if !["tree.txt", "tree.json"].contains(&name.as_str()) {
                continue;
            }
            assert_eq!(change, Change::Replaced, "{name} is written in its place");
            if self.text.exists() && text_says(&read(&self.text), done) && self.json.exists() {
                let json = read(&self.json);
                if json_says(&json, done) {
                    return;
                }
            }
        }
    }
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("a file")
}

/// The marks of the steps, with `done` of them done.
fn states(done: usize) -> Vec<&'static str> {
    let state = |step: usize| match step {
        _ if step < done => "completed",
        _ if step == done => "in_progress",
        _ => "planned",
    };
    (0..CALLS).map(state).collect()
}

fn json_says(text: &str, done: usize) -> bool {
    let document: Value = serde_json::from_str(text).expect("a whole document");
    let steps = document["steps"].as_array().expect("steps").iter();
    let goals = steps.filter(|step| step["step_type"] == "goal");
    let shown: Vec<_> = goals.filter_map(|goal| goal["status"].as_str()).collect();
    // Before the plan there are no steps.
    assert!(shown.is_empty() || shown.len() == CALLS, "{text}");
    shown == states(done)
}

/// Whether it says so. It is whole: it has as many nodes as its head says.
fn text_says(text: &str, done: usize) -> bool {
    let lines = text.lines();
    let nodes = lines.clone().filter(|line| line.contains("── ["));
    let said = lines
        .clone()
        .find_map(|line| line.strip_prefix("total_steps: "));
    assert_eq!(said, Some(nodes.clone().count().to_string().as_str()));
    assert!(text.ends_with('\n'), "{text:?}");
    let goals = nodes.filter(|line| line.contains("goal: gate"));
    let mark = |line: &str| match line.split(['[', ']']).nth(1) {
        Some("✓") => "completed",
        Some("→") => "in_progress",
        _ => "planned",
    };
    goals.map(mark).collect::<Vec<_>>() == states(done)
}

/// Lets the run go on call by call. Before each of them ends, the files say how far it has got,
/// and who has opened one before continues reading what it was.
fn follow(place: &Place, dump: &mut Dump, run: &mut Child) {
    let mut before: Option<(fs::File, String)> = None;
    for done in 0..CALLS {
        wait_for_call(&place.site);
        dump.wait_for(done);
        if let Some((mut file, text)) = before.take() {
            let mut again = String::new();
            file.rewind().expect("the file");
            file.read_to_string(&mut again).expect("the file");
            assert_eq!(again, text, "a file that somebody reads has changed");
        }
        let file = fs::File::open(&dump.json).expect("the file");
        before = Some((file, read(&dump.json)));
        let_call_end(&place.site);
    }
    assert_eq!(run.wait().expect("its end").code(), Some(0));
}

/// The files are what the command shows of the run that has ended.
fn check_ended(place: &Place, dump: &Dump) {
    let json: Value = serde_json::from_str(&read(&dump.json)).expect("JSON");
    assert_eq!(json["trace"]["status"], "completed");
    let shown = place.run(&["tree", "s", "--view", "json"]).out;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(json["steps"], shown["steps"]);
    assert_eq!(json["trace"], shown["trace"]);
    let without_time = |text: &str| {
        let lines = text.trim_end().lines();
        let lines = lines.filter(|line| !line.starts_with("Generated: "));
        lines.collect::<Vec<_>>().join("\n")
    };
    let shown = place.run(&["tree", "s", "--view", "text"]).out;
    assert_eq!(without_time(&read(&dump.text)), without_time(&shown));
    let folder = dump.json.parent().expect("a folder");
    assert_eq!(fs::read_dir(folder).expect("a folder").count(), 2);
}

fn a_run_keeps_its_tree_up_to_date_in_the_folder_of_choice(store: TestStore) {
    let place = over(store);
    let mut dump = Dump::at(&place.site.path().join("some/where"));
    let mut run = start_run(&place, &["--tree-dir=some/where"]);
    follow(&place, &mut dump, &mut run);
    check_ended(&place, &dump);
    assert!(!place.site.path().join(".trace").exists());
}

fn a_run_that_is_taken_up_again_keeps_its_tree_where_nothing_is_said(store: TestStore) {
    let mut place = over(store);
    let mut run = start_run(&place, &[]);
    wait_for_call(&place.site);
    run.kill().expect("it is killed");
    run.wait().expect("its end");
    place.kill_server();
    assert!(
        !place.site.path().join(".trace").exists(),
        "nobody asked for it"
    );
    wait_for_end_of_program(&place.site);
    let mut dump = Dump::at(&place.site.path().join(".trace"));
    serve(&mut place);
    let mut run = start(&place, &["resume", "s", "--tree-dir"]);
    follow(&place, &mut dump, &mut run);
    check_ended(&place, &dump);
}

fn cairn_tree_keeps_the_files_up_to_date_beside_a_run(store: TestStore) {
    let place = over(store);
    let mut run = start_run(&place, &[]);
    wait_for_call(&place.site);
    let mut dump = Dump::at(&place.site.path().join(".trace"));
    let mut live = start(&place, &["tree", "s", "--live"]);
    // It finds the run under way and says so at once; the first call has been waited for.
    dump.wait_for(0);
    let_call_end(&place.site);
    for done in 1..CALLS {
        wait_for_call(&place.site);
        dump.wait_for(done);
        let_call_end(&place.site);
    }
    assert_eq!(run.wait().expect("its end").code(), Some(0));
    assert_eq!(live.wait().expect("its end").code(), Some(0));
    check_ended(&place, &dump);
}

fn cairn_tree_keeps_one_view_in_a_file_of_choice(store: TestStore) {
    let place = over(store);
    let mut run = start_run(&place, &[]);
    wait_for_call(&place.site);
    let folder = place.site.path().join("views");
    fs::create_dir_all(&folder).expect("a folder");
    let mut changes = Changes::of(&folder);
    let live = [
        "tree",
        "s",
        "--live",
        "--view",
        "todo",
        "--output",
        "views/todo",
    ];
    let mut live = start(&place, &live);
    for done in 0..=CALLS {
        let mark = |step| match step {
            _ if step < done => "[✓] gate\n",
            _ if step == done => "[→] gate\n",
            _ => "[ ] gate\n",
        };
        let expected: String = (0..CALLS).map(mark).collect();
        loop {
            let (name, change) = changes.next_change();
            if name == "todo" {
                assert_eq!(change, Change::Replaced);
                if read(&folder.join("todo")) == expected {
                    break;
                }
            }
        }
        if done < CALLS {
            let_call_end(&place.site);
        }
        if done + 1 < CALLS {
            wait_for_call(&place.site);
        }
    }
    assert_eq!(run.wait().expect("its end").code(), Some(0));
    assert_eq!(live.wait().expect("its end").code(), Some(0));
    assert!(!place.site.path().join(".trace").exists());
}

/// Processes that write their trees to one folder do not take each other's half-written files.
#[test]
fn what_others_write_beside_the_tree_is_left_alone() {
    let site = Site::new(CAIRN);
    let other = "half of another process's tree";
    site.write(".trace/tree.new", other);
    site.write(
        "plan.json",
        r#"{"steps": [{"tool": "list_files", "arguments": {}}]}"#,
    );
    let done = site.run(&["run", "--plan", "plan.json", "--tree-dir"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(site.read(".trace/tree.json").is_some());
    assert_eq!(site.read(".trace/tree.new").as_deref(), Some(other));
}

#[test]
fn in_a_file_a_run_keeps_its_tree_up_to_date_in_the_folder_of_choice() {
    a_run_keeps_its_tree_up_to_date_in_the_folder_of_choice(TestStore::file());
}

#[test]
fn in_a_file_a_run_that_is_taken_up_again_keeps_its_tree_where_nothing_is_said() {
    a_run_that_is_taken_up_again_keeps_its_tree_where_nothing_is_said(TestStore::file());
}

#[test]
fn in_a_file_cairn_tree_keeps_the_files_up_to_date_beside_a_run() {
    cairn_tree_keeps_the_files_up_to_date_beside_a_run(TestStore::file());
}

#[test]
fn in_a_file_cairn_tree_keeps_one_view_in_a_file_of_choice() {
    cairn_tree_keeps_one_view_in_a_file_of_choice(TestStore::file());
}

/// Each needs servers of Redis.
mod redis {
    use super::*;

    #[test]
    fn over_redis_a_run_keeps_its_tree_up_to_date_in_the_folder_of_choice() {
        a_run_keeps_its_tree_up_to_date_in_the_folder_of_choice(TestStore::redis());
    }

    #[test]
    fn over_redis_a_run_that_is_taken_up_again_keeps_its_tree_where_nothing_is_said() {
        a_run_that_is_taken_up_again_keeps_its_tree_where_nothing_is_said(TestStore::redis());
    }

    #[test]
    fn over_redis_cairn_tree_keeps_the_files_up_to_date_beside_a_run() {
        cairn_tree_keeps_the_files_up_to_date_beside_a_run(TestStore::redis());
    }

    #[test]
    fn over_redis_cairn_tree_keeps_one_view_in_a_file_of_choice() {
        cairn_tree_keeps_one_view_in_a_file_of_choice(TestStore::redis());
    }

    #[test]
    fn over_a_cluster_a_run_that_is_taken_up_again_keeps_its_tree_where_nothing_is_said() {
        a_run_that_is_taken_up_again_keeps_its_tree_where_nothing_is_said(TestStore::cluster());
    }

    #[test]
    fn over_a_cluster_cairn_tree_keeps_the_files_up_to_date_beside_a_run() {
        cairn_tree_keeps_the_files_up_to_date_beside_a_run(TestStore::cluster());
    }
}
