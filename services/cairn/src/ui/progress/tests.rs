use super::*;

#[test]
fn planning_that_failed_was_paid_for() {
    let usage = wire::Usage {
        input_tokens: 700,
        output_tokens: 40,
        cost_nano_usd: 5,
        model_calls: 2,
        ..wire::Usage::default()
    };
    let started = wire::RunStarted {
        run: 1,
        ..wire::RunStarted::default()
    };
    let failed = wire::RunFailed {
        run: 1,
        usage: Some(usage),
        ..wire::RunFailed::default()
    };
    let mut progress = Progress::new(1, 0);
    for kind in [Kind::RunStarted(started), Kind::RunFailed(failed)] {
        let event = wire::Event {
            at_unix_ms: 0,
            kind: Some(kind),
            ..Default::default()
        };
        assert!(progress.apply(1, &event));
    }
    assert_eq!(progress.usage, usage);
}

fn event(kind: Kind) -> wire::Event {
    wire::Event {
        at_unix_ms: 0,
        kind: Some(kind),
        ..Default::default()
    }
}

fn started() -> Kind {
    Kind::RunStarted(wire::RunStarted {
        run: 1,
        ..wire::RunStarted::default()
    })
}

fn plan(revision: u32, steps: &[(u32, &str)]) -> Kind {
    let step = |(_, title): &(u32, &str)| wire::PlanStep {
        title: (*title).to_owned(),
        ..wire::PlanStep::default()
    };
    let numbers = match revision {
        1 => Vec::new(),
        _ => steps.iter().map(|(number, _)| *number).collect(),
    };
    Kind::PlanApplied(wire::PlanApplied {
        run: 1,
        revision,
        plan: Some(wire::Plan {
            steps: steps.iter().map(step).collect(),
            ..wire::Plan::default()
        }),
        numbers,
        ..wire::PlanApplied::default()
    })
}

fn completed(step: u32) -> Kind {
    let attempt = Some(wire::AttemptRef {
        run: 1,
        step,
        attempt: 1,
    });
    Kind::StepCompleted(wire::StepCompleted {
        attempt,
        summary: format!("did {step}"),
        ..wire::StepCompleted::default()
    })
}

fn reported(kinds: impl IntoIterator<Item = Kind>) -> Progress {
    let mut progress = Progress::new(1, 0);
    for (kind, seq) in kinds.into_iter().zip(1..) {
        progress.apply(seq, &event(kind));
    }
    progress
}

fn shown(progress: &Progress) -> Vec<(u32, &str, StepState, bool)> {
    let steps = progress.steps.iter();
    steps
        .map(|step| (step.number, step.name.as_str(), step.state, step.kept))
        .collect()
}

#[test]
fn another_plan_keeps_what_its_steps_have_come_to() {
    let first = [
        started(),
        plan(1, &[(1, "a"), (2, "b"), (3, "c")]),
        completed(1),
        completed(2),
    ];
    let second = plan(2, &[(2, "b"), (4, "d")]);
    let progress = reported(
        first
            .clone()
            .into_iter()
            .chain([second.clone(), completed(4)]),
    );
    assert_eq!(progress.revision, 2);
    assert_eq!(
        shown(&progress),
        [
            (2, "b", StepState::Done, true),
            (4, "d", StepState::Done, false),
        ]
    );
    // What a plan left out may come back with its result.
    let third = plan(3, &[(4, "d"), (1, "a"), (3, "c")]);
    let progress = reported(first.into_iter().chain([second, completed(4), third]));
    assert_eq!(
        shown(&progress),
        [
            (4, "d", StepState::Done, true),
            (1, "a", StepState::Done, true),
            (3, "c", StepState::Pending, false),
        ]
    );
    assert_eq!(progress.steps[1].result, "did 1");
}

#[test]
fn a_run_that_has_ended_is_opened_by_a_plan_of_its_own_only() {
    let ended = Kind::RunCompleted(wire::RunCompleted {
        run: 1,
        answer: "done".to_owned(),
        ..wire::RunCompleted::default()
    });
    let history = [started(), plan(1, &[(1, "a")]), completed(1), ended];
    let asked = Kind::RevisionRequested(wire::RevisionRequested {
        run: 1,
        request: 7,
        ..wire::RevisionRequested::default()
    });
    let progress = reported(history.clone().into_iter().chain([asked.clone()]));
    assert!(progress.end.is_some());
    assert_eq!(progress.revising.len(), 1);
    let more = [asked, plan(2, &[(1, "a"), (2, "b")])];
    let progress = reported(history.into_iter().chain(more));
    assert_eq!(progress.end, None);
    assert_eq!(
        shown(&progress),
        [
            (1, "a", StepState::Done, true),
            (2, "b", StepState::Pending, false),
        ]
    );
}

#[test]
fn a_pause_ends_with_being_resumed() {
    let paused = Kind::RunPaused(wire::RunPaused {
        run: 1,
        reason: "lunch".to_owned(),
    });
    let progress = reported([started(), paused.clone()]);
    assert_eq!(progress.paused.as_deref(), Some("lunch"));
    let resumed = Kind::RunResumed(wire::RunResumed { run: 1 });
    assert_eq!(reported([started(), paused, resumed]).paused, None);
}

#[test]
fn a_run_fails_with_the_step_whose_failure_it_has() {
    let failure = |message: &str| wire::Failure {
        message: message.to_owned(),
        ..wire::Failure::default()
    };
    let failed = |step: u32| {
        Kind::StepFailed(wire::StepFailed {
            attempt: Some(wire::AttemptRef {
                run: 1,
                step,
                attempt: 1,
            }),
            failure: Some(failure(&format!("why {step}"))),
        })
    };
    let steps = plan(1, &[(1, "slow"), (2, "quick")]);
    let progress = reported([started(), steps.clone(), failed(2), failed(1)]);
    let step = |progress: &Progress, message: &str| {
        let step = progress.failed_step(&failure(message));
        step.map(|step| step.name.clone())
    };
    assert_eq!(step(&progress, "why 2").as_deref(), Some("quick"));
    assert_eq!(step(&progress, "no budget"), None);
    // Under another plan another step is the first that fails.
    let revised = plan(2, &[(1, "slow"), (3, "new")]);
    let progress = reported([started(), steps, failed(2), revised, failed(3)]);
    assert_eq!(step(&progress, "why 3").as_deref(), Some("new"));
}

#[test]
fn a_run_has_its_compactions_and_pays_for_lost_summaries() {
    let attempt = Some(wire::AttemptRef {
        run: 1,
        step: 1,
        attempt: 1,
    });
    let asked = |again| {
        Kind::SummaryAsked(wire::SummaryAsked {
            attempt,
            estimate: 100,
            again,
            ..wire::SummaryAsked::default()
        })
    };
    let compacted = Kind::ContextCompacted(wire::ContextCompacted {
        attempt,
        kind: wire::CompactionKind::Summary.into(),
        usage: Some(wire::Usage {
            input_tokens: 7,
            model_calls: 1,
            ..wire::Usage::default()
        }),
        replaced: 4,
        tokens_before: 90,
        tokens_after: 20,
        ..wire::ContextCompacted::default()
    });
    let begun = [started(), plan(1, &[(1, "a")]), asked(false)];
    let progress = reported(begun.clone());
    assert_eq!(progress.steps[0].call, SUMMARY);
    let lost = reported(begun.clone().into_iter().chain([completed(1)]));
    assert_eq!((lost.usage.input_tokens, lost.usage.model_calls), (100, 1));
    let progress = reported(begun.into_iter().chain([asked(true), compacted]));
    let usage = progress.usage;
    assert_eq!((usage.input_tokens, usage.unpriced_tokens), (107, 100));
    assert_eq!(progress.steps[0].call, "");
    let what = "4 messages became a summary (about 90 → 20 tokens)".to_owned();
    let (step, kept) = (1, false);
    assert_eq!(progress.compacted, [Compacted { step, what, kept }]);
}

#[test]
fn the_answer_of_a_turn_is_its_last_reply() {
    let reply = |text: &str, finish: wire::FinishReason| {
        Kind::ReplyReceived(wire::ReplyReceived {
            attempt: Some(wire::AttemptRef {
                run: 1,
                step: 1,
                attempt: 1,
            }),
            text: text.to_owned(),
            finish: finish.into(),
            ..wire::ReplyReceived::default()
        })
    };
    let completed = Kind::RunCompleted(wire::RunCompleted {
        run: 1,
        ..wire::RunCompleted::default()
    });
    let mut progress = Progress::new(1, 0);
    for kind in [
        started(),
        reply("I look.", wire::FinishReason::ToolCalls),
        reply("One, ", wire::FinishReason::Length),
        reply("two.", wire::FinishReason::Stop),
        completed,
    ] {
        progress.apply(1, &event(kind));
    }
    assert_eq!(progress.end, Some(End::Completed("One, two.".to_owned())));
}

const AT: wire::AttemptRef = wire::AttemptRef {
    run: 1,
    step: 1,
    attempt: 1,
};

fn hooked(point: wire::HookPoint, change: wire::hook_mutation::Change) -> wire::Event {
    let outcome = wire::HookOutcome {
        verdict: wire::HookVerdict::Mutate.into(),
        mutation: Some(wire::HookMutation {
            change: Some(change),
        }),
        ..wire::HookOutcome::default()
    };
    event(Kind::HooksAnswered(wire::HooksAnswered {
        gate: Some(wire::HookGate {
            point: point.into(),
            attempt: Some(AT),
            ..wire::HookGate::default()
        }),
        outcomes: vec![outcome],
    }))
}

#[test]
fn the_answer_is_what_hooks_left_of_the_reply() {
    let mut progress = Progress::new(1, 0);
    let reply = |text: &str, finish: wire::FinishReason| {
        event(Kind::ReplyReceived(wire::ReplyReceived {
            attempt: Some(AT),
            text: text.to_owned(),
            finish: finish.into(),
            held: true,
            ..wire::ReplyReceived::default()
        }))
    };
    let redacted = wire::hook_mutation::Change::Text("no secret".to_owned());
    let events = [
        event(started()),
        reply("First, ", wire::FinishReason::Length),
        reply("a secret", wire::FinishReason::Stop),
        hooked(wire::HookPoint::PostRequest, redacted),
    ];
    for (seq, event) in (1..).zip(&events) {
        progress.apply(seq, event);
    }
    assert_eq!(progress.reply.text, "First, no secret");
}

#[test]
fn a_plan_that_hooks_are_asked_about_was_paid_for() {
    let usage = wire::Usage {
        input_tokens: 700,
        model_calls: 1,
        ..wire::Usage::default()
    };
    let asked = wire::HooksAsked {
        plan: Some(wire::HeldPlan {
            usage: Some(usage),
            ..wire::HeldPlan::default()
        }),
        ..wire::HooksAsked::default()
    };
    let mut progress = Progress::new(1, 0);
    let kinds = [started(), Kind::HooksAsked(asked), plan(1, &[(1, "one")])];
    for (seq, kind) in (1..).zip(kinds) {
        progress.apply(seq, &event(kind));
    }
    assert_eq!(progress.usage, usage);
}

#[test]
fn a_report_has_the_name_that_hooks_gave_it() {
    let mut progress = Progress::new(1, 0);
    let call = wire::RequestedCall {
        call: Some(wire::ToolCall {
            name: "write_file".to_owned(),
            arguments_json: r#"{"path":"cairn-out/report.md"}"#.to_owned(),
            ..wire::ToolCall::default()
        }),
        hooked: true,
        ..wire::RequestedCall::default()
    };
    let reply = wire::ReplyReceived {
        attempt: Some(AT),
        calls: vec![call],
        ..wire::ReplyReceived::default()
    };
    let moved = r#"{"path":"cairn-out/report-2.md"}"#.to_owned();
    let moved = wire::hook_mutation::Change::ArgumentsJson(moved);
    let finished = wire::CallFinished {
        call: Some(wire::CallRef {
            attempt: Some(AT),
            ..wire::CallRef::default()
        }),
        ..wire::CallFinished::default()
    };
    let events = [
        event(started()),
        event(plan(1, &[(1, "one")])),
        event(Kind::ReplyReceived(reply)),
        hooked(wire::HookPoint::PreToolCall, moved),
        event(Kind::CallFinished(finished)),
    ];
    for (seq, event) in (1..).zip(&events) {
        progress.apply(seq, event);
    }
    assert_eq!(progress.report.as_deref(), Some("report-2.md"));
}
