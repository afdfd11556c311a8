use super::*;
use cairn_proto::event::{Failure, ToolCall, ToolResult};
use unicode_width::UnicodeWidthStr as _;

fn view() -> View {
    View::new(Style::new(false), 80)
}

fn response(events: Vec<Event>) -> pb::SubmitTurnResponse {
    let events = events
        .into_iter()
        .map(|event| pb::TurnEvent { event: Some(event) });
    pb::SubmitTurnResponse {
        seq: 7,
        events: events.collect(),
    }
}

fn lines(view: &mut View, events: Vec<Event>) -> Vec<Shown> {
    view.take(&response(events), 3_400)
}

fn line(text: &str) -> Shown {
    Shown::Line(text.to_owned())
}

fn text(text: &str) -> Event {
    part(0, 1, text)
}

fn part(tool_turn: u32, offset: u64, text: &str) -> Event {
    Event::Text(pb::AssistantTextDelta {
        text: text.to_owned(),
        tool_turn,
        offset,
    })
}

fn call(index: u32, name: &str, arguments: &str) -> Event {
    Event::ToolCall(pb::TurnToolCall {
        tool_turn: 0,
        index,
        call: Some(ToolCall {
            id: format!("c{index}"),
            name: name.to_owned(),
            arguments_json: arguments.to_owned(),
        }),
    })
}

fn result(index: u32, output: &str, is_error: bool) -> Event {
    Event::ToolResult(pb::TurnToolResult {
        tool_turn: 0,
        index,
        result: Some(ToolResult {
            call_id: format!("c{index}"),
            text: output.to_owned(),
            is_error,
        }),
    })
}

fn reset() -> Event {
    Event::Reset(pb::TextReset { tool_turn: 0 })
}

#[test]
fn a_turn_with_parallel_calls_is_text_and_lines() {
    let mut view = view();
    let begins = pb::TurnStarted {
        run: 4,
        context: "main".to_owned(),
    };
    assert_eq!(lines(&mut view, vec![Event::Started(begins)]), []);
    assert_eq!(view.run, 4);
    assert_eq!(
        lines(
            &mut view,
            vec![
                text("Let me look."),
                call(0, "list_files", r#"{"path":"docs"}"#),
                call(1, "read_file", "{}"),
            ]
        ),
        [
            Shown::Text("Let me look.".to_owned()),
            Shown::End,
            line(r#"→ list_files {"path":"docs"}"#),
            line("→ read_file {}"),
        ]
    );
    assert_eq!(
        lines(
            &mut view,
            vec![
                result(1, "no such file", true),
                result(0, "\none.md\ntwo.md\n", false),
            ]
        ),
        [
            line("✗ read_file  no such file"),
            line("✓ list_files  one.md (+1 line)"),
        ]
    );
    let complete = pb::TurnComplete {
        response: "Done.".to_owned(),
        usage: Some(Usage {
            input_tokens: 1_200,
            output_tokens: 34,
            cost_nano_usd: 5_600_000,
            ..Usage::default()
        }),
        ..pb::TurnComplete::default()
    };
    assert_eq!(
        lines(&mut view, vec![text("Done."), Event::Complete(complete)]),
        [
            Shown::Text("Done.".to_owned()),
            Shown::End,
            line("1,200 tokens in, 34 out · $0.0056 · 3.4 s"),
        ]
    );
    assert_eq!(view.state, State::Completed("Done.".to_owned()));
    assert!(view.is_over());
}

#[test]
fn a_reset_counts_only_after_text_of_the_same_reply() {
    let mut view = view();
    assert_eq!(lines(&mut view, vec![reset()]), []);
    let anew = line("… the reply begins anew; the text above does not count");
    let shown = lines(&mut view, vec![text("Void"), reset(), text("Anew")]);
    assert_eq!(
        shown,
        [
            Shown::Text("Void".to_owned()),
            Shown::End,
            anew,
            Shown::Text("Anew".to_owned())
        ]
    );
    let shown = lines(&mut view, vec![call(0, "x", "{}"), reset()]);
    assert_eq!(shown, [Shown::End, line("→ x {}")]);
}

#[test]
fn a_reply_that_comes_again_begins_anew_and_another_reply_begins_a_line() {
    let mut view = view();
    let shown = |text: &str| Shown::Text(text.to_owned());
    let first = vec![part(0, 0, "On"), part(0, 2, "e.")];
    assert_eq!(lines(&mut view, first), [shown("On"), shown("e.")]);
    assert_eq!(lines(&mut view, vec![part(0, 0, "One.")])[0], Shown::End);
    let second = vec![part(1, 0, "Two.")];
    assert_eq!(lines(&mut view, second), [Shown::End, shown("Two.")]);
}

#[test]
fn results_are_shown_before_the_text_that_follows_them() {
    let mut view = view();
    lines(&mut view, vec![call(0, "x", "{}"), call(1, "y", "{}")]);
    assert_eq!(lines(&mut view, vec![text("Bo")]), []);
    let first = lines(&mut view, vec![result(1, "two", false)]);
    assert_eq!(first, [line("✓ y  two")]);
    let shown = lines(&mut view, vec![text("th"), result(0, "one", false)]);
    let both = Shown::Text("Both".to_owned());
    assert_eq!(shown, [line("✓ x  one"), both]);
    lines(&mut view, vec![call(0, "x", "{}")]);
    let long = "z".repeat(MOST_EARLY + 1);
    assert_eq!(lines(&mut view, vec![text(&long)]), [Shown::Text(long)]);
}

#[test]
fn a_turn_that_waits_continues_after_the_decision() {
    let mut view = view();
    let paused = pb::TurnWaiting {
        reason: WaitReason::Approval.into(),
    };
    assert_eq!(lines(&mut view, vec![Event::Waiting(paused)]), []);
    assert_eq!(view.state, State::Waiting);
    let paused = Event::Waiting(pb::TurnWaiting::default());
    assert_eq!(lines(&mut view, vec![paused]), [line(PAUSED)]);
    let resumed = || vec![Event::Resumed(pb::TurnResumed {})];
    assert_eq!(lines(&mut view, resumed()), [line("the turn continues")]);
    assert_eq!(view.state, State::Running);
    assert_eq!(lines(&mut view, resumed()), []);
}

#[test]
fn failures_and_cancellations_say_that_nothing_is_kept() {
    let error = |reason: &str, message: &str| {
        Event::Error(pb::TurnError {
            failure: Some(Failure {
                reason: reason.to_owned(),
                message: message.to_owned(),
                ..Failure::default()
            }),
            run: 1,
        })
    };
    let mut failed = view();
    assert_eq!(
        lines(&mut failed, vec![error("reply_cut", "too long")]),
        [line(
            "✗ the turn failed: too long (reply_cut); no message of it is kept"
        )]
    );
    assert_eq!(failed.state, State::Failed);
    let cancelled = error("Cancelled", "the turn was cancelled");
    assert_eq!(
        lines(&mut view(), vec![cancelled]),
        [line("the turn was cancelled; no message of it is kept")]
    );
}

#[test]
fn lines_keep_to_the_terminal() {
    let long = "石標 and more ".repeat(40);
    for columns in [40, 80, 200] {
        let mut view = View::new(Style::new(false), columns);
        let events = vec![
            call(0, "read_file", &format!(r#"{{"path":"{long}"}}"#)),
            result(0, &format!("{long}\n{long}\n{long}"), false),
        ];
        for shown in lines(&mut view, events) {
            let Shown::Line(line) = shown else {
                panic!("{shown:?}");
            };
            assert!(line.width() < columns, "{columns}: {line}");
            assert!(line.width() > columns / 2, "{columns}: {line}");
        }
    }
}

#[test]
fn calls_that_were_not_made_are_listed() {
    let complete = pb::TurnComplete {
        calls: vec![ToolCall {
            name: "record".to_owned(),
            arguments_json: "{}".to_owned(),
            ..ToolCall::default()
        }],
        ..pb::TurnComplete::default()
    };
    assert_eq!(
        lines(&mut view(), vec![Event::Complete(complete)]),
        [line("- record {}  (not made)"), line("3.4 s")]
    );
}

#[test]
fn numbers_have_commas() {
    let cases = [
        (0, "0"),
        (999, "999"),
        (1_000, "1,000"),
        (12_345_678, "12,345,678"),
    ];
    for (number, want) in cases {
        assert_eq!(grouped(number), want);
    }
}

#[test]
fn progress_of_a_call_is_a_line_a_second_at_most() {
    let progress = |message: &str| {
        Event::ToolProgress(pb::TurnToolProgress {
            progress: 3.0,
            total: 10.0,
            message: message.to_owned(),
            ..pb::TurnToolProgress::default()
        })
    };
    let mut view = view();
    lines(&mut view, vec![call(0, "fetch", "{}")]);
    let mut shown = |ms, message| view.take(&response(vec![progress(message)]), ms);
    assert_eq!(
        shown(5_000, "a\n\u{1b}[2J"),
        [line("… fetch 3 of 10 a \\u{1b}[2J")]
    );
    assert_eq!(shown(5_900, "b"), []);
    assert_eq!(shown(6_000, "c"), [line("… fetch 3 of 10 c")]);
}
