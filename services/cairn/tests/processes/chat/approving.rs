//! Approvals in a conversation at a terminal: writes with their change, scopes by their numbers, and modes.

use super::{model, server};
use crate::support::CAIRN;
use crate::support::screen::Screen;
use cairn_testkit::Site;
use cairn_testkit::model_server::{Answer, reply};
use serde_json::json;

fn write(id: &str, path: &str, content: &str) -> Answer {
    let arguments = json!({"path": path, "content": content});
    reply(id, "", &[("write_file", arguments)])
}

fn has_all(shown: &str, texts: &[&str]) {
    for text in texts {
        assert!(shown.contains(text), "no {text:?} in {shown}");
    }
}

#[test]
fn a_write_is_shown_as_its_change_and_a_scope_lets_further_ones_pass() {
    let answers = vec![
        write("a", "src/a.txt", "one\ntwo\n"),
        write("b", "src/b.txt", "three\n"),
        write("c", "c.txt", "four\n"),
        reply("r", "Written.", &[]),
    ];
    let (server, asked) = server(answers);
    let site = Site::new(CAIRN);
    let mut screen = Screen::of(site.command(&["chat"]).envs(model(&server)));
    screen.wait_for("› ");
    screen.types("Write.\r");
    let shown = screen.wait_for("approve? [y / 1 / 2 / n, or n and why]");
    has_all(
        &shown,
        &[
            "writes    src/a.txt  (a new file, 2 lines)",
            "    +one",
            "    +two",
            "y         this call",
            "1         this call, and in this session every call of write_file below src/",
            "2         this call, and in this session every call of write_file",
        ],
    );
    assert_eq!(site.read("src/a.txt"), None, "nobody approved it");
    screen.types("1\r");
    let shown = screen.wait_for("approve? [y / 1 / 2 / n");
    has_all(&shown, &["writes    c.txt  (a new file, 1 line)"]);
    assert!(!shown.contains("writes    src/b.txt"), "{shown}");
    screen.types("n not here\r");
    screen.wait_for("Written.");
    assert_eq!(site.read("src/a.txt").as_deref(), Some("one\ntwo\n"));
    assert_eq!(site.read("src/b.txt").as_deref(), Some("three\n"));
    assert_eq!(site.read("c.txt"), None);
    let asked = asked.lock().expect("requests");
    assert!(asked[3].to_string().contains("not here"), "{}", asked[3]);
}

#[test]
fn an_edit_is_shown_as_what_it_removes_and_adds() {
    let read = reply("a", "", &[("read_file", json!({"path": "docs/one.md"}))]);
    let edit = json!({"path": "docs/one.md", "old": "is a store", "new": "is two stores"});
    let answers = vec![
        read,
        reply("b", "", &[("edit_file", edit)]),
        reply("r", "Edited.", &[]),
    ];
    let (server, _) = server(answers);
    let site = Site::new(CAIRN);
    let mut command = site.command(&["chat", "--color", "always"]);
    let mut screen = Screen::of(command.envs(model(&server)));
    // The blank after it comes after the end of its colour.
    screen.wait_for("›");
    screen.types("Edit.\r");
    let shown = screen.wait_for("approve? [");
    has_all(
        &shown,
        &[
            "writes    docs/one.md  (+1 -1)",
            "    \u{1b}[36m@@ -1,3 +1,3 @@\u{1b}[0m",
            "    \u{1b}[31m-Redis is a store.\u{1b}[0m",
            "    \u{1b}[32m+Redis is two stores.\u{1b}[0m",
        ],
    );
    screen.types("y\r");
    screen.wait_for("Edited.");
    let text = site.read("docs/one.md").expect("the file");
    assert!(text.contains("Redis is two stores."), "{text}");
}

#[test]
fn a_long_change_is_cut_and_shown_whole_for_a_person_who_asks() {
    let content: String = (0..60).map(|n| format!("line {n}\n")).collect();
    let answers = vec![write("a", "a.txt", &content), reply("r", "Written.", &[])];
    let (server, _) = server(answers);
    let site = Site::new(CAIRN);
    let mut screen = Screen::of(site.command(&["chat"]).envs(model(&server)));
    screen.wait_for("session ");
    let session = screen.wait_for(" ").trim().to_owned();
    screen.wait_for("› ");
    screen.types("Write.\r");
    let shown = screen.wait_for("… 20 more lines; d shows all of it");
    has_all(&shown, &["+line 39"]);
    assert!(!shown.contains("+line 40"), "{shown}");
    // The same elsewhere.
    let pending = site.run(&["pending", &session]);
    let rest = format!("… 20 more lines; see them with: cairn pending {session} --whole");
    has_all(
        &pending.out,
        &[&rest, "approve --scope tool", "approve --scope folder:."],
    );
    let whole = site.run(&["pending", &session, "--whole"]);
    has_all(&whole.out, &["+line 59"]);
    let shown = site.run(&["show", &session]);
    has_all(&shown.out, &[&rest, "mode     ask"]);
    screen.wait_for("d for the whole change");
    screen.types("d\r");
    screen.wait_for("+line 59");
    screen.wait_for("d for the whole change");
    screen.types("y\r");
    screen.wait_for("Written.");
    assert_eq!(site.read("a.txt"), Some(content));
}

#[test]
fn a_scope_is_granted_by_a_command_and_listed_in_the_same_words() {
    let answers = vec![
        write("a", "src/a.txt", "a\n"),
        write("b", "src/b.txt", "b\n"),
        reply("r", "Written.", &[]),
    ];
    let (server, _) = server(answers);
    let site = Site::new(CAIRN);
    let mut screen = Screen::of(site.command(&["chat"]).envs(model(&server)));
    screen.wait_for("session ");
    let session = screen.wait_for(" ").trim().to_owned();
    screen.wait_for("› ");
    screen.types("Write.\r");
    screen.wait_for("approve? [");
    let id = super::waiting(&site);
    let scope = |scope: &str| {
        let approve = ["approve", &session, &id, "--yes", "--scope", scope];
        site.run(&approve)
    };
    let refused = scope("folder:docs");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    has_all(
        &refused.err,
        &["has no scope folder:docs", "folder:src", "tool"],
    );
    let approved = scope("folder:src");
    assert_eq!(approved.code, Some(0), "{approved:?}");
    let words = "every call of write_file below src/";
    has_all(&approved.out, &[words]);
    screen.wait_for("the question has its answer");
    screen.wait_for("Written.");
    assert_eq!(site.read("src/b.txt").as_deref(), Some("b\n"));
    let listed = site.run(&["tools", "approvals", &session]);
    has_all(&listed.out, &[words]);
}

#[test]
fn the_mode_says_which_writes_are_made_without_asking() {
    let answers = vec![
        write("a", "a.txt", "a\n"),
        reply("p", "Planned.", &[]),
        write("b", "b.txt", "b\n"),
        reply("w", "Written.", &[]),
    ];
    let (server, asked) = server(answers);
    let site = Site::new(CAIRN);
    let mut command = site.command(&["chat", "--mode", "plan"]);
    let mut screen = Screen::of(command.envs(model(&server)));
    screen.wait_for("session ");
    let session = screen.wait_for(" ").trim().to_owned();
    screen.wait_for("mode plan");
    screen.wait_for("› ");
    screen.types("/mode\r");
    screen.wait_for("mode plan: models read files");
    screen.wait_for("› ");
    screen.types("Write.\r");
    let shown = screen.wait_for("Planned.");
    assert!(!shown.contains("approve?"), "{shown}");
    screen.wait_for("› ");
    screen.types("/mode accept-edits\r");
    screen.wait_for("mode accept-edits: writes in the workspace");
    screen.wait_for("› ");
    screen.types("/mode yolo\r");
    screen.wait_for("there is no mode yolo; there are plan, ask, accept-edits");
    screen.wait_for("› ");
    screen.types("Write now.\r");
    let shown = screen.wait_for("Written.");
    assert!(!shown.contains("approve?"), "{shown}");
    screen.wait_for("› ");
    screen.types("\u{4}");
    assert_eq!(screen.child.wait().expect("its end").code(), Some(0));
    assert_eq!(site.read("a.txt"), None);
    assert_eq!(site.read("b.txt").as_deref(), Some("b\n"));
    {
        let asked = asked.lock().expect("requests");
        assert!(asked[0].to_string().contains("plan mode"), "{}", asked[0]);
    }
    has_all(
        &site.run(&["show", &session]).out,
        &["mode     accept-edits"],
    );
    let json = site.run(&["show", &session, "--json"]).out;
    has_all(&json, &[r#""mode":"accept-edits""#]);
    let again = ["chat", &session, "--mode", "ask"];
    let mut screen = Screen::of(site.command(&again).envs(model(&server)));
    screen.wait_for("mode ask");
    screen.wait_for("the mode is ask now, and was accept-edits");
}
