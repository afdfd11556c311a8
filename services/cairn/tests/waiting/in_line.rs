//! `cairn run` and `cairn resume` on a terminal: what the run waits for is asked in line, and the run continues.

use crate::support::CAIRN;
use crate::support::screen::Screen;
use cairn_testkit::Site;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

const ID: &str = "approval-1.1.1.0.0";
const RUN: [&str; 5] = ["run", "--session", "s", "--plan", "plan.json"];

/// A plan of two calls, which both ask.
fn site() -> Site {
    let site = Site::new(CAIRN);
    site.append(
        "cairn.toml",
        "\n[[tools.rules]]\ntool = \"record\"\nanswer = \"ask\"\n",
    );
    let step = |what: &str| json!({"tool": "record", "arguments": {"what": what}});
    let plan = json!({"steps": [step("one"), step("two")]});
    site.write("plan.json", &plan.to_string());
    site
}

fn recorded(site: &Site) -> usize {
    site.read("ledger").map_or(0, |it| it.lines().count())
}

fn code(screen: &mut Screen) -> Option<i32> {
    screen.child.wait().expect("its end").code()
}

#[test]
fn each_question_is_asked_and_the_run_continues_with_its_answer() {
    let site = site();
    let mut screen = Screen::of(&mut site.command(&RUN));
    screen.wait_for(&format!("? {ID}"));
    let shown = screen.wait_for("approve? [y / 1 / n");
    for text in [
        "step      1",
        "record",
        r#"{"what":"one"}"#,
        "Ctrl-D leaves it open",
    ] {
        assert!(shown.contains(text), "no {text:?} in {shown}");
    }
    screen.wait_for("› ");
    screen.types("perhaps\r");
    screen.wait_for("that is no answer to the question");
    screen.wait_for("› ");
    assert_eq!(recorded(&site), 0, "nobody approved it");
    screen.types("y\r");
    screen.wait_for("? approval-1.2.1.0.0");
    let shown = screen.wait_for("› ");
    assert!(!shown.contains("Ctrl-D"), "it is said once: {shown}");
    assert_eq!(recorded(&site), 1);
    screen.types("y\r");
    screen.wait_for("answer");
    assert_eq!(code(&mut screen), Some(0));
    assert_eq!(recorded(&site), 2);
}

#[test]
fn a_scope_lets_the_further_calls_of_the_run_pass() {
    let site = site();
    let mut screen = Screen::of(&mut site.command(&RUN));
    let shown = screen.wait_for("approve? [y / 1 / n");
    assert!(shown.contains("1         this call, and in this session every call of record"));
    screen.wait_for("› ");
    screen.types("1\r");
    let shown = screen.wait_for("answer");
    assert!(!shown.contains("approval-1.2.1.0.0"), "{shown}");
    assert_eq!(code(&mut screen), Some(0));
    assert_eq!(recorded(&site), 2);
}

#[test]
fn what_was_typed_before_a_question_is_no_answer_to_it() {
    let site = site();
    let mut screen = Screen::of(&mut site.command(&RUN));
    screen.types("y\ry\ry\r");
    screen.wait_for("approve? [y / 1 / n");
    screen.wait_for("› ");
    screen.types("n not now\r");
    screen.wait_for("not now");
    assert_eq!(code(&mut screen), Some(1));
    assert_eq!(recorded(&site), 0);
}

#[test]
fn a_question_that_is_left_open_is_asked_again_by_resume() {
    let site = site();
    let mut screen = Screen::of(&mut site.command(&RUN));
    screen.wait_for("approve? [y / 1 / n");
    screen.wait_for("› ");
    screen.types("\u{4}");
    screen.wait_for("waits ");
    screen.wait_for("cairn decide s approval-1.1.1.0.0 approve --scope tool");
    screen.wait_for("cairn resume s");
    assert_eq!(code(&mut screen), Some(3));
    let mut screen = Screen::of(&mut site.command(&["resume", "s"]));
    screen.wait_for("approve? [y / 1 / n");
    screen.wait_for("› ");
    screen.types("1\r");
    screen.wait_for("answer");
    assert_eq!(code(&mut screen), Some(0));
    assert_eq!(recorded(&site), 2);
}

#[test]
fn a_question_that_is_answered_elsewhere_gives_way() {
    let site = site();
    let mut screen = Screen::of(&mut site.command(&RUN));
    screen.wait_for("approve? [y / 1 / n");
    screen.wait_for("› ");
    let approve = ["approve", "s", ID, "--yes", "--scope", "tool"];
    let approved = site.run(&approve);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    screen.wait_for("the question has its answer");
    screen.wait_for("answer");
    assert_eq!(code(&mut screen), Some(0));
    assert_eq!(recorded(&site), 2);
}

#[test]
fn a_person_who_stops_the_command_leaves_the_question_open() {
    let site = site();
    let mut screen = Screen::of(&mut site.command(&RUN));
    screen.wait_for("approve? [y / 1 / n");
    screen.wait_for("› ");
    kill_process(Pid::from_child(&screen.child), Signal::INT).expect("it is told");
    screen.wait_for("go on with: cairn resume s");
    assert_eq!(code(&mut screen), Some(130));
    let pending = site.run(&["pending", "s", "--json"]);
    assert_eq!(pending.out.lines().count(), 1, "{pending:?}");
    assert_eq!(recorded(&site), 0);
}

#[test]
fn a_plan_is_looked_at_in_line() {
    let site = site();
    let goal = "Which files under docs mention Redis?";
    let review = ["run", "--session", "s", "--review", goal];
    let mut screen = Screen::of(&mut site.command(&review));
    let shown = screen.wait_for("carry it out? [y / n and what is to be different]");
    assert!(shown.contains("       1. "), "{shown}");
    screen.wait_for("› ");
    screen.types("y\r");
    screen.wait_for("answer");
    assert_eq!(code(&mut screen), Some(0));
}

#[test]
fn a_run_in_the_mode_plan_makes_no_write() {
    let site = Site::new(CAIRN);
    let write = json!({"path": "cairn-out/a.txt", "content": "a\n"});
    let plan = json!({"steps": [{"tool": "write_file", "arguments": write}]});
    site.write("plan.json", &plan.to_string());
    let denied = site.run(&[&RUN[..], &["--mode", "plan"]].concat());
    assert_eq!(denied.code, Some(1), "{denied:?}");
    assert_eq!(site.read("cairn-out/a.txt"), None);
    let shown = site.run(&["show", "s"]);
    assert!(shown.out.contains("mode     plan"), "{shown:?}");
    let fork = site.run(&["fork", "s", "--new-session", "s-2"]);
    assert_eq!(fork.code, Some(0), "{fork:?}");
    let shown = site.run(&["show", "s-2"]);
    assert!(shown.out.contains("mode     ask"), "{shown:?}");
    let again = site.run(&[&RUN[..], &["--mode", "ask"]].concat());
    assert_eq!(again.code, Some(0), "{again:?}");
}
