//! Runs, sessions and keys.

use super::refold;
use super::scene::{GOAL, Scene};
use cairn_proto::event as wire;
use cairn_proto::event::event::Kind;
use cairn_proto::orchestrator as pb;
use sha2::{Digest as _, Sha256};

/// A digest of fields, each after its length in eight bytes.
fn digest(fields: &[&[u8]]) -> Vec<u8> {
    let mut digest = Sha256::new();
    for field in fields {
        digest.update((field.len() as u64).to_be_bytes());
        digest.update(field);
    }
    digest.finalize().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The digest of the keys of a step's effective dependencies, in the order of the keys.
fn dependencies(mut keys: Vec<&[u8]>) -> Vec<u8> {
    keys.sort_unstable();
    let version = 2_u64.to_be_bytes();
    let mut fields: Vec<&[u8]> = vec![b"cairn.step.dependencies", &version];
    fields.extend(keys);
    digest(&fields)
}

/// The keys of steps, and the one that the tool was given.
pub(crate) async fn check_keys(scene: &mut Scene) {
    let number = |n: u64| n.to_be_bytes();
    let (zero, one, version) = (number(0), number(1), number(1));
    let step = |fields: &[&[u8]], before: Vec<&[u8]>| {
        let version = number(2);
        let before = dependencies(before);
        digest(&[&[b"cairn.step", &version[..]], fields, &[&zero, &before]].concat())
    };
    let survey = step(&[b"Survey", b"Look at docs.", &zero], vec![]);
    let arguments = br#"{"path":"docs","pattern":"Redis"}"#;
    let find = [b"Find", &b""[..], &one, b"search_files", arguments];
    let find = step(&find, vec![&survey]);
    let tell = [b"Tell", &b"Say what was found."[..], &zero];
    let tell = step(&tell, vec![&survey, &find]);
    let keys = [hex(&survey), hex(&find), hex(&tell)];
    let plan = scene.plan(1).await;
    let shown: Vec<_> = plan.steps.iter().map(|step| &step.key).collect();
    assert_eq!(shown, keys.each_ref());

    // Run 1, step 3, attempt 1, tool turn 1, index 0.
    let place = [1, 3, 1, 1, 0].map(number);
    let mut call: Vec<&[u8]> = vec![b"cairn.call", &version, b"default", b"both"];
    call.extend(place.iter().map(|number| number.as_slice()));
    let uses: Vec<_> = scene.place.site.ledger().uses().into_iter().collect();
    assert_eq!(uses, [(hex(&digest(&call)), 1)]);
}

/// A run that has ended, with when and by which events it began and ended.
fn ended(scene: &Scene, run: u32) -> pb::Run {
    let events = scene.events_of(run);
    let (first, last) = (
        events.first().expect("a start"),
        events.last().expect("an end"),
    );
    pb::Run {
        number: run,
        started_unix_ms: first.1.at_unix_ms,
        ended_unix_ms: last.1.at_unix_ms,
        first_seq: first.0,
        last_seq: last.0,
        ..pb::Run::default()
    }
}

fn first_run(scene: &Scene) -> pb::Run {
    let usage = wire::Usage {
        input_tokens: 5500,
        output_tokens: 270,
        cost_nano_usd: 17_500_000,
        model_calls: 10,
        ..wire::Usage::default()
    };
    assert_eq!(refold::usage(&scene.events_of(1), None), usage);
    pb::Run {
        goal: GOAL.to_owned(),
        status: pb::RunStatus::Completed.into(),
        answer: "Two lines name Redis: docs/one.md:2 and docs/two.md:3.".to_owned(),
        usage: Some(usage),
        tool_turns: 9,
        steps: 3,
        steps_done: 3,
        ..ended(scene, 1)
    }
}

fn second_run(scene: &Scene) -> pb::Run {
    let failure = scene
        .events
        .iter()
        .find_map(|(_, event)| match &event.kind {
            Some(Kind::StepFailed(failed)) => failed.failure.clone(),
            _ => None,
        });
    pb::Run {
        status: pb::RunStatus::Failed.into(),
        failure,
        usage: Some(wire::Usage::default()),
        steps: 3,
        steps_done: 1,
        ..ended(scene, 2)
    }
}

pub(crate) async fn check_runs(scene: &mut Scene) {
    let session = scene.session.clone();
    let request = pb::ListRunsRequest { session };
    let runs = scene.client.list_runs(request).await.expect("runs");
    let runs = runs.into_inner().runs;
    let (first, second) = (first_run(scene), second_run(scene));
    let last = scene.events.last().expect("an event");
    let seen = pb::Session {
        id: "both".to_owned(),
        title: "Stores".to_owned(),
        status: pb::SessionStatus::Idle.into(),
        created_unix_ms: scene.events[0].1.at_unix_ms,
        updated_unix_ms: last.1.at_unix_ms,
        last_seq: last.0,
        runs: 2,
        latest_run: Some(second.clone()),
        // The second asked no model.
        usage: first.usage,
        quarantine_reason: 0,
        forked_from: None,
        decisions: started(scene),
        active_context: "main".to_owned(),
        turn_index: 0,
        queued_turns: Vec::new(),
        // Of 100,000 events.
        journal_permille: u32::try_from(last.0 / 100).expect("a share"),
        agent: String::new(),
        mode: wire::Mode::Ask.into(),
    };
    assert_eq!(runs, [first.clone(), second.clone()]);
    for (number, run) in [(1, &first), (2, &second), (0, &second)] {
        let session = scene.session.clone();
        let request = pb::GetRunRequest {
            session,
            run: number,
        };
        let answer = scene.client.get_run(request).await.expect("a run");
        assert_eq!(answer.into_inner().run.as_ref(), Some(run));
    }
    let session = scene.session.clone();
    let request = pb::GetSessionRequest { session };
    let answer = scene.client.get_session(request).await.expect("a session");
    assert_eq!(answer.into_inner().session, Some(seen));
}

/// Both runs were started over TCP, by a client with the token.
fn started(scene: &Scene) -> Vec<pb::PastDecision> {
    let by = wire::Principal {
        subject: "token".to_owned(),
        namespace: "default".to_owned(),
        authentication: wire::Authentication::Token.into(),
    };
    let events = scene.events.iter();
    let started = events.filter_map(|(_, event)| match &event.kind {
        Some(Kind::RunStarted(started)) => Some((event.at_unix_ms, started.run)),
        _ => None,
    });
    let decision = |(at_unix_ms, run)| pb::PastDecision {
        at_unix_ms,
        run,
        step: 0,
        what: "started the run".to_owned(),
        principal: Some(by.clone()),
    };
    started.map(decision).collect()
}

pub(crate) async fn check_sessions(scene: &mut Scene) {
    let request = pb::ListSessionsRequest::default();
    let page = scene.client.list_sessions(request).await.expect("a page");
    let page = page.into_inner();
    assert_eq!(
        (page.sessions.len(), page.next_page_token.as_str()),
        (1, "")
    );
    let listed = &page.sessions[0];
    assert_eq!(
        (listed.id.as_str(), listed.title.as_str()),
        ("both", "Stores")
    );
    assert_eq!(listed.status(), pb::SessionStatus::Idle);
    assert_eq!(listed.last_seq, scene.events.len() as u64);
}
