use super::*;
use cairn_proto::event::{CompactionKind, Failure, ResultHandle, ToolCall, ToolResult};
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
        whole: None,
    })
}

fn reset() -> Event {
    Event::Reset(pb::TextReset { tool_turn: 0 })
}

/// What comes of a turn, and below it what is shown.
#[derive(Default)]
struct Script(String);

impl Script {
    fn part(&mut self, what: &str, view: &mut View, events: Vec<Event>) {
        self.0.push_str(&format!("--- {what}\n"));
        let lines = lines(view, events).into_iter().map(|shown| match shown {
            Shown::Text(text) => format!("text  {text}\n"),
            Shown::End => "end\n".to_owned(),
            Shown::Line(line) => format!("line  {line}\n"),
        });
        self.0.extend(lines);
    }
}

#[test]
fn a_turn_with_parallel_calls_is_text_and_lines() {
    let (mut view, mut script) = (view(), Script::default());
    let begins = pb::TurnStarted {
        run: 4,
        context: "main".to_owned(),
    };
    script.part("the start", &mut view, vec![Event::Started(begins)]);
    assert_eq!(view.run, 4);
    let calls = vec![
        text("Let me look."),
        call(0, "list_files", r#"{"path":"docs"}"#),
        call(1, "read_file", "{}"),
    ];
    script.part("a text and two calls", &mut view, calls);
    let results = vec![
        result(1, "no such file", true),
        result(0, "\none.md\ntwo.md\n", false),
    ];
    script.part("their results", &mut view, results);
    let complete = pb::TurnComplete {
        response: "Done.".to_owned(),
        usage: Some(Usage {
            input_tokens: 1_200,
            output_tokens: 34,
            cost_nano_usd: 5_600_000,
            ..Usage::default()
        }),
        journal_permille: 934,
        ..pb::TurnComplete::default()
    };
    let ends = vec![text("Done."), Event::Complete(complete)];
    script.part("a text and the end", &mut view, ends);
    insta::assert_snapshot!("turn_with_parallel_calls", script.0);
    assert_eq!(view.state, State::Completed("Done.".to_owned()));
    assert_eq!(view.journal_permille, 934);
    assert!(view.is_over());
}

#[test]
fn a_turn_in_another_context_than_the_expected_one_says_so() {
    let begins = || {
        vec![Event::Started(pb::TurnStarted {
            run: 4,
            context: "draft".to_owned(),
        })]
    };
    let said = "the active context is draft now, and this turn continues it";
    for (expected, shown) in [("", vec![]), ("draft", vec![]), ("main", vec![line(said)])] {
        let mut view = view().after(expected);
        assert_eq!(lines(&mut view, begins()), shown, "{expected}");
        assert_eq!((view.run, view.context.as_str()), (4, "draft"));
    }
}

/// A reset counts only after text of the same reply.
#[test]
fn a_reply_that_is_reset_or_comes_again_begins_anew() {
    let (mut view, mut script) = (view(), Script::default());
    script.part("a reset before any text", &mut view, vec![reset()]);
    let again = vec![text("Void"), reset(), text("Anew")];
    script.part("a reset after text", &mut view, again);
    let later = vec![call(0, "x", "{}"), reset()];
    script.part("a reset after a call", &mut view, later);

    let mut view = self::view();
    let first = vec![part(0, 0, "On"), part(0, 2, "e.")];
    script.part("a reply in two parts", &mut view, first);
    script.part("the same reply", &mut view, vec![part(0, 0, "One.")]);
    script.part("another reply", &mut view, vec![part(1, 0, "Two.")]);

    let mut view = self::view();
    let calls = vec![call(0, "x", "{}"), call(1, "y", "{}")];
    script.part("two calls", &mut view, calls);
    script.part("a text before their results", &mut view, vec![text("Bo")]);
    let first = vec![result(1, "two", false)];
    script.part("the result of one", &mut view, first);
    let second = vec![text("th"), result(0, "one", false)];
    script.part("the result of the other", &mut view, second);
    insta::assert_snapshot!("replies_that_begin_anew", script.0);

    lines(&mut view, vec![call(0, "x", "{}")]);
    let long = "z".repeat(MOST_EARLY + 1);
    assert_eq!(lines(&mut view, vec![text(&long)]), [Shown::Text(long)]);
}

#[test]
fn a_turn_that_waits_fails_or_is_cancelled_says_so() {
    let (mut view, mut script) = (view(), Script::default());
    let waits = pb::TurnWaiting {
        reason: WaitReason::Approval.into(),
    };
    script.part("a wait", &mut view, vec![Event::Waiting(waits)]);
    assert_eq!(view.state, State::Waiting);
    let paused = Event::Waiting(pb::TurnWaiting::default());
    script.part("a pause", &mut view, vec![paused]);
    let resumed = || vec![Event::Resumed(pb::TurnResumed {})];
    script.part("it continues", &mut view, resumed());
    assert_eq!(view.state, State::Running);
    script.part("it continues again", &mut view, resumed());

    let error = |reason: &str, message: &str| {
        vec![Event::Error(pb::TurnError {
            failure: Some(Failure {
                reason: reason.to_owned(),
                message: message.to_owned(),
                ..Failure::default()
            }),
            run: 1,
            is_kept: reason == "Cancelled",
        })]
    };
    script.part("a failure", &mut view, error("reply_cut", "too long"));
    assert_eq!(view.state, State::Failed);
    let cancelled = error("Cancelled", "the turn was cancelled");
    script.part("a cancellation", &mut self::view(), cancelled);

    let complete = pb::TurnComplete {
        calls: vec![ToolCall {
            name: "record".to_owned(),
            arguments_json: "{}".to_owned(),
            ..ToolCall::default()
        }],
        ..pb::TurnComplete::default()
    };
    let ends = vec![Event::Complete(complete)];
    script.part("an end with a call", &mut self::view(), ends);
    insta::assert_snapshot!("turns_that_wait_or_end", script.0);
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
fn a_long_result_is_shown_with_the_size_of_the_whole() {
    let mut view = view();
    let Event::ToolResult(mut long) = result(0, "line 1\nline 2\n", false) else {
        panic!("a result");
    };
    long.whole = Some(ResultHandle {
        handle: "result-1-9f86".to_owned(),
        lines: 80_000,
        bytes: 5 << 20,
        ..ResultHandle::default()
    });
    let events = vec![call(0, "run", "{}"), Event::ToolResult(long)];
    let shown = lines(&mut view, events);
    assert_eq!(shown[1], line("✓ run  line 1 (80000 lines, 5.0 MiB)"));
}

#[test]
fn a_compaction_is_a_line_after_the_text_before_it() {
    let mut view = view();
    let compacted = Event::Compacted(pb::TurnCompacted {
        kind: CompactionKind::History.into(),
        replaced: 34,
        tokens_before: 5_600,
        tokens_after: 1_200,
    });
    let shown = lines(&mut view, vec![text("Let me look."), compacted]);
    let expected = [
        Shown::Text("Let me look.".to_owned()),
        Shown::End,
        line("34 messages became a history view (about 5,600 → 1,200 tokens)"),
    ];
    assert_eq!(shown, expected);
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
