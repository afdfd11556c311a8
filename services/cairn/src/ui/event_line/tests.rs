use super::*;
use crate::ui::testing::golden;
use cairn_rpc::text::is_hidden;

fn event(kind: Kind) -> wire::Event {
    wire::Event {
        at_unix_ms: 0,
        kind: Some(kind),
        ..Default::default()
    }
}

const AT: wire::AttemptRef = wire::AttemptRef {
    run: 1,
    step: 2,
    attempt: 1,
};

#[test]
fn every_kind_has_one_harmless_line() {
    let mut lines = Vec::new();
    for (name, _, event) in golden() {
        let line = Narrator::default().line(&event);
        assert!(
            line.text.chars().any(char::is_alphanumeric),
            "{name}: {line}"
        );
        assert!(!line.to_string().contains(is_hidden), "{name}: {line}");
        assert_eq!(line.text, line.text.trim(), "{name}");
        lines.push(format!("{name:<40}{line}\n"));
    }
    lines.sort();
    let unknown = Narrator::default().line(&wire::Event::default());
    lines.push(format!("{:<40}{unknown}\n", "(a newer kind)"));
    insta::assert_snapshot!("every_kind", lines.concat());
}

#[test]
fn later_lines_use_the_names_of_earlier_events() {
    let mut narrator = Narrator::default();
    let step = |title: &str, tool: &str| wire::PlanStep {
        title: title.into(),
        tool: Some(wire::ToolInvocation {
            name: tool.into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    let plan = wire::Plan {
        order: wire::Order::Graph.into(),
        steps: vec![step("Survey", "list_files"), step("", "count\u{1b}")],
    };
    let applied = narrator.line(&event(Kind::PlanApplied(wire::PlanApplied {
        run: 1,
        revision: 1,
        plan: Some(plan),
        ..Default::default()
    })));
    let started = wire::StepStarted {
        attempt: Some(AT),
        ..Default::default()
    };
    let started = narrator.line(&event(Kind::StepStarted(started)));
    // The second attempt of a tool step makes the same call as the first.
    let finished = wire::CallFinished {
        call: Some(wire::CallRef {
            attempt: Some(wire::AttemptRef { attempt: 2, ..AT }),
            tool_turn: 0,
            index: 0,
        }),
        output: "a\nb\n".into(),
        ..Default::default()
    };
    let finished = narrator.line(&event(Kind::CallFinished(finished)));
    // A call of a model is named by the reply that asked for it.
    let call = |name: &str| wire::RequestedCall {
        call: Some(wire::ToolCall {
            id: "x".into(),
            name: name.into(),
            arguments_json: r#"{"path":"a"}"#.into(),
        }),
        ..Default::default()
    };
    let reply = narrator.line(&event(Kind::ReplyReceived(wire::ReplyReceived {
        attempt: Some(AT),
        tool_turn: 3,
        text: "Next.".into(),
        calls: vec![call("read_file"), call("send_mail")],
        ..Default::default()
    })));
    let doubt = narrator.line(&event(Kind::CallInDoubt(wire::CallInDoubt {
        call: Some(wire::CallRef {
            attempt: Some(AT),
            tool_turn: 3,
            index: 1,
        }),
        settle_after_unix_ms: 3_723_000,
    })));
    let lines = [applied, started, finished, reply, doubt].map(|line| format!("{line}\n"));
    insta::assert_snapshot!("names_of_earlier_events", lines.concat());
}

#[test]
fn a_long_plan_is_reported_by_its_first_steps() {
    let step = |number: usize| wire::PlanStep {
        title: format!("s{number}"),
        ..Default::default()
    };
    for (count, end) in [(12, " · s12"), (13, " · s12 · …")] {
        let plan = wire::Plan {
            steps: (1..=count).map(step).collect(),
            ..Default::default()
        };
        let applied = Kind::PlanApplied(wire::PlanApplied {
            run: 1,
            revision: 1,
            plan: Some(plan),
            ..Default::default()
        });
        let line = Narrator::default().line(&event(applied));
        assert!(line.text.contains(&format!("{count} steps")), "{line}");
        assert!(line.text.ends_with(end), "{line}");
    }
}

#[test]
fn another_plan_is_reported_with_the_numbers_of_its_steps() {
    let mut narrator = Narrator::default();
    let step = |title: &str| wire::PlanStep {
        title: title.into(),
        ..Default::default()
    };
    let plan = wire::Plan {
        steps: vec![step("Survey"), step("Count")],
        ..Default::default()
    };
    let requested = wire::RevisionRequested {
        run: 1,
        feedback: "count\nthem".into(),
        apply: false,
        request: 7,
        denied: 0,
    };
    let proposed = wire::PlanProposed {
        run: 1,
        proposal: 1,
        base_revision: 1,
        plan: Some(plan.clone()),
        ..Default::default()
    };
    let applied = wire::PlanApplied {
        run: 1,
        revision: 2,
        plan: Some(plan),
        numbers: vec![1, 6],
        ..Default::default()
    };
    let started = wire::StepStarted {
        attempt: Some(wire::AttemptRef { step: 6, ..AT }),
        ..Default::default()
    };
    let paused = wire::RunPaused {
        run: 1,
        reason: "lunch".into(),
    };
    let kinds = [
        Kind::RevisionRequested(requested),
        Kind::PlanProposed(proposed),
        Kind::PlanApplied(applied),
        Kind::StepStarted(started),
        Kind::RunPaused(paused),
    ];
    let lines = kinds.map(|kind| format!("{}\n", narrator.brief(&event(kind)).unwrap()));
    insta::assert_snapshot!("another_plan", lines.concat());
}

#[test]
fn a_fork_is_reported_with_its_origin() {
    let forked = wire::ForkedFrom {
        session: "s-7f3k".into(),
        at_seq: 12,
        request_id: "q".into(),
        title: "A\nfork".into(),
    };
    let line = Narrator::default().brief(&event(Kind::ForkedFrom(forked)));
    let line = line.unwrap().to_string();
    assert_eq!(line, "  forked from s-7f3k at 12: A\\nfork");
}

#[test]
fn a_line_ends_with_who_asked() {
    let by = |subject: &str| wire::Event {
        principal: Some(wire::Principal {
            subject: subject.into(),
            ..Default::default()
        }),
        ..event(Kind::MemoryRemoved(wire::MemoryRemoved {
            key: "k".into(),
            ..Default::default()
        }))
    };
    let line = Narrator::default().line(&by("uid:1000"));
    assert_eq!(line.to_string(), "  memory: k removed by uid:1000");
    let line = Narrator::default().line(&by("a\u{1b}"));
    assert_eq!(line.text, "memory: k removed by a\\u{1b}");
}

#[test]
fn the_reason_of_a_failure_is_said_once() {
    for (reason, message, want) in [
        ("ToolTimeout", "it took 2 s", "it took 2 s (ToolTimeout)"),
        (
            "ExecutionFailed",
            "ExecutionFailed: no such file",
            "ExecutionFailed: no such file",
        ),
        ("Exec", "Execution ended", "Execution ended (Exec)"),
        ("ExecutionFailed", "", "ExecutionFailed"),
        ("", "no such file", "no such file"),
        ("", "", ""),
    ] {
        let failure = wire::Failure {
            reason: reason.into(),
            message: message.into(),
            ..wire::Failure::default()
        };
        assert_eq!(failure_text(Some(&failure)), want);
    }
}

#[test]
fn a_dropped_turn_failed_or_was_cancelled() {
    let failure = wire::Failure {
        reason: "CONTEXT_NOT_FOUND".to_owned(),
        message: "there is no context 'side'".to_owned(),
        ..wire::Failure::default()
    };
    for (reason, failure, expected) in [
        ("not needed", None, "✗ queued turn 4 cancelled: not needed"),
        (
            "",
            Some(failure),
            "✗ queued turn 4 failed: there is no context 'side' (CONTEXT_NOT_FOUND)",
        ),
    ] {
        let dropped = wire::QueuedTurnDropped {
            number: 4,
            reason: reason.to_owned(),
            failure,
        };
        let line = Narrator::default().line(&event(Kind::QueuedTurnDropped(dropped)));
        assert_eq!(line.to_string(), expected);
    }
}

#[test]
fn a_long_result_names_its_size_and_its_handle() {
    let finished = wire::CallFinished {
        call: Some(wire::CallRef {
            attempt: Some(AT),
            tool_turn: 0,
            index: 0,
        }),
        output: "first\nsecond\n".into(),
        whole: Some(wire::ResultHandle {
            handle: "result-3".into(),
            bytes: 5 << 20,
            ..Default::default()
        }),
        ..Default::default()
    };
    let line = Narrator::default().line(&event(Kind::CallFinished(finished)));
    let expected = "gave: first … of 5.0 MiB, handle result-3 (0 ms)";
    assert!(line.text.ends_with(expected), "{}", line.text);
}
