//! Agents on the command line: those of a folder that came from others, and the agent of a run and a conversation.

use crate::support::CAIRN;
use crate::support::grants::{digest_of, with_digest};
use crate::support::screen::Screen;
use cairn_testkit::model_server::{Answer, reply};
use cairn_testkit::{ModelServer, Output, Site};
use std::io::Write as _;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

const NOTICE: &str = "and do not count; see and confirm them with: cairn agent trust";
/// Every text of the folder has it.
const CANARY: &str = "canary";

/// What a model was sent, one text a request.
type Sent = Arc<Mutex<Vec<String>>>;

fn model() -> (ModelServer, Sent) {
    let sent = Sent::default();
    let kept = Arc::clone(&sent);
    let server = ModelServer::start(move |body| {
        kept.lock().expect("no panic").push(body.to_string());
        reply("r", "Done.", &[])
    });
    (server, sent)
}

fn variables(server: &ModelServer) -> [(&'static str, String); 2] {
    let url = server.url().to_owned();
    [
        ("OPENAI_BASE_URL", url),
        ("OPENAI_API_KEY", "sk-none".to_owned()),
    ]
}

/// A repository as an attacker would write it.
fn hostile() -> Site {
    let site = Site::new(CAIRN).of_others();
    let agent = "---\ndescription: canary of the description\n---\nThe canary of the prompt.\n";
    site.write(".claude/agents/reviewer.md", agent);
    let skill =
        "---\nname: thief\ndescription: canary of the skill\n---\nThe canary of its text.\n";
    site.write(".agents/skills/thief/SKILL.md", skill);
    site.write("AGENTS.md", "The canary of the instructions.\n");
    site
}

/// Says one thing in a new conversation, or in the session that is named.
fn chat(site: &Site, server: &ModelServer, arguments: &[&str]) -> Output {
    let mut command = site.command(&[&["chat"], arguments].concat());
    let command = command
        .envs(variables(server))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program can be started");
    let mut stdin = child.stdin.take().expect("its input");
    // A command that refuses its arguments reads nothing.
    let _ = stdin.write_all(b"Hello\n");
    drop(stdin);
    let done = child.wait_with_output().expect("its end");
    Output {
        code: done.status.code(),
        signal: None,
        out: String::from_utf8_lossy(&done.stdout).into_owned(),
        err: String::from_utf8_lossy(&done.stderr).into_owned(),
    }
}

fn last(sent: &Sent) -> String {
    sent.lock()
        .expect("no panic")
        .last()
        .cloned()
        .expect("a request")
}

#[test]
fn no_file_of_a_folder_counts_before_a_person_confirmed_it() {
    let (site, (server, sent)) = (hostile(), model());
    let said = chat(&site, &server, &[]);
    assert_eq!(
        (said.code, said.out.as_str()),
        (Some(0), "Done.\n"),
        "{said:?}"
    );
    assert_eq!(said.err.matches(NOTICE).count(), 1, "{said:?}");
    assert!(said.err.contains("AGENTS.md"), "{said:?}");
    assert!(!last(&sent).contains(CANARY), "{}", last(&sent));
    for name in ["reviewer", "workspace:reviewer"] {
        let run = site.run(&["run", "--agent", name, "Look"]);
        assert_eq!(run.code, Some(1), "{run:?}");
        assert!(run.err.contains("reviewer"), "{run:?}");
        let said = chat(&site, &server, &["--agent", name]);
        assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{said:?}");
    }
    assert_eq!(sent.lock().expect("no panic").len(), 1);
    let listed = site.run(&["agent", "list"]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(
        listed.out.contains("workspace:reviewer  not confirmed"),
        "{listed:?}"
    );
    let json = site.run(&["agent", "list", "--json"]);
    assert!(json.out.contains(r#""confirmed":false"#), "{json:?}");
    let unasked = site.run(&["agent", "trust"]);
    assert_eq!(unasked.code, Some(2), "{unasked:?}");
    for shown in [&listed, &json, &unasked] {
        assert!(!shown.out.contains(CANARY), "{shown:?}");
    }
}

#[test]
fn confirmed_files_count_until_one_of_them_changes() {
    let (site, (server, sent)) = (hostile(), model());
    let digest = digest_of(&site.run(&["agent", "trust"]));
    let confirmed = with_digest(&site, &["agent", "trust"]);
    assert_eq!(confirmed.code, Some(0), "{confirmed:?}");
    for path in [
        ".claude/agents/reviewer.md",
        ".agents/skills/thief/SKILL.md",
        "AGENTS.md",
    ] {
        assert!(confirmed.out.contains(path), "{path}: {confirmed:?}");
    }
    let listed = site.run(&["agent", "list"]);
    assert!(
        listed.out.contains("canary of the description"),
        "{listed:?}"
    );
    let shown = site.run(&["agent", "show", "workspace:reviewer"]);
    assert!(shown.out.contains("The canary of the prompt."), "{shown:?}");

    let said = chat(&site, &server, &["--agent", "reviewer"]);
    assert_eq!(
        (said.code, said.err.matches(NOTICE).count()),
        (Some(0), 0),
        "{said:?}"
    );
    for what in ["prompt", "instructions", "skill"] {
        let canary = format!("canary of the {what}");
        assert!(last(&sent).contains(&canary), "{what}: {}", last(&sent));
    }

    // A script beside a skill is one of its files.
    site.write(".agents/skills/thief/steal.sh", "true\n");
    let said = chat(&site, &server, &[]);
    assert_eq!(
        (said.code, said.err.matches(NOTICE).count()),
        (Some(0), 1),
        "{said:?}"
    );
    assert!(!last(&sent).contains(CANARY), "{}", last(&sent));
    let again = site.run(&["agent", "trust", "--digest", &digest, "--yes"]);
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.err.contains("read them again"), "{again:?}");
}

#[test]
fn a_person_at_a_terminal_sees_the_files_and_is_asked() {
    let site = Site::new(CAIRN);
    site.write("AGENTS.md", "Answer briefly.\n");
    for (answer, said) in [
        ("n", "nothing was confirmed"),
        ("y", "the files are confirmed"),
    ] {
        let mut screen = Screen::of(&mut site.command(&["agent", "trust"]));
        let shown = screen.wait_for("Confirm? [y/N] ");
        assert!(shown.contains("instructions  AGENTS.md"), "{shown}");
        screen.types(&format!("{answer}\r"));
        screen.wait_for(said);
        assert_eq!(screen.child.wait().expect("its end").code(), Some(0));
    }
    let done = site.run(&["agent", "trust", "--json"]);
    assert!(done.out.contains(r#""confirmed":true"#), "{done:?}");
    let empty = Site::new(CAIRN);
    let done = empty.run(&["agent", "trust"]);
    let none = "the workspace has no agent files, skills or instructions\n";
    assert_eq!((done.code, done.out.as_str()), (Some(0), none), "{done:?}");
}

#[test]
fn an_agent_that_is_not_there_starts_nothing() {
    let (site, (server, sent)) = (Site::new(CAIRN), model());
    let run = site.run(&["run", "--agent", "nobody", "Look"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let said = chat(&site, &server, &["--agent", "nobody"]);
    assert_eq!((said.code, said.out.as_str()), (Some(1), ""), "{said:?}");
    for done in [&run, &said] {
        assert!(done.err.contains("nobody"), "{done:?}");
        assert!(
            done.err.contains("see the agents with: cairn agent list"),
            "{done:?}"
        );
    }
    assert_eq!(site.sessions(), [""; 0]);
    assert!(sent.lock().expect("no panic").is_empty());
}

fn put(site: &Site, name: &str, prompt: &str) {
    let path = format!("agents/{name}.md");
    site.write(&path, &format!("---\ndescription: {name}\n---\n{prompt}\n"));
    let done = site.run(&["agent", "put", &path]);
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn a_conversation_has_an_agent_and_takes_another() {
    let (site, (server, sent)) = (Site::new(CAIRN), model());
    put(&site, "reviewer", "You review.");
    put(&site, "critic", "You find faults.");
    let mut command = site.command(&["chat", "--agent", "reviewer"]);
    let mut screen = Screen::of(command.envs(variables(&server)));
    screen.wait_for("session ");
    let session = screen.wait_for(" · agent reviewer");
    for (types, shows) in [
        ("Hello", "Done."),
        ("/agent", "agent reviewer"),
        ("/agent nobody", "\"nobody\" does not exist"),
        (
            "/agent critic",
            "this conversation continues with the agent critic",
        ),
        ("Again", "Done."),
    ] {
        screen.wait_for("› ");
        screen.types(&format!("{types}\r"));
        screen.wait_for(shows);
    }
    screen.wait_for("› ");
    screen.types("\u{4}");
    screen.wait_for("come back with: cairn chat s-");
    assert_eq!(screen.child.wait().expect("its end").code(), Some(0));
    let requests = sent.lock().expect("no panic").clone();
    assert_eq!(requests.len(), 2, "{requests:?}");
    let changed = "operational mode has changed from reviewer to critic";
    for (request, own, other) in [
        (&requests[0], "You review.", "You find faults."),
        (&requests[1], "You find faults.", "You review."),
    ] {
        assert!(
            request.contains(own) && !request.contains(other),
            "{request}"
        );
        assert_eq!(
            request.contains(changed),
            own == "You find faults.",
            "{request}"
        );
    }

    let session = session.trim();
    let shown = site.run(&["show", session]);
    assert!(shown.out.contains("agent    critic"), "{shown:?}");
    let listed = site.run(&["sessions", "--agent", "critic"]);
    assert!(listed.out.contains(session), "{listed:?}");
    let said = chat(&site, &server, &[session, "--agent", "default"]);
    let line = "the context main has the agent default now, and had critic before";
    assert!(said.code == Some(0) && said.err.contains(line), "{said:?}");
    assert!(!last(&sent).contains("You find faults."), "{}", last(&sent));
    let same = chat(&site, &server, &[session, "--agent", "default"]);
    assert!(
        same.code == Some(0) && !same.err.contains("now, and had"),
        "{same:?}"
    );
}

/// The default model is no wish of the person, so it does not go before the model of an agent.
#[test]
fn an_agent_works_with_its_own_model() {
    let (site, (server, sent)) = (Site::new(CAIRN), model());
    let url = server.url();
    let bright = format!("\n[models.b]\nbase_url = '{url}'\nmodel = 'bright'\n");
    site.append("cairn.toml", &bright);
    let agent = "---\nmodel: [nope, b]\n---\nP.\n";
    site.write("agents/mm.md", agent);
    site.write(".claude/agents/of-file.md", agent);
    let put = site.run_with(&["agent", "put", "agents/mm.md"], &[]);
    assert!(
        put.code == Some(0) && !put.out.contains("names no model"),
        "{put:?}"
    );
    let confirmed = with_digest(&site, &["agent", "trust"]);
    assert_eq!(confirmed.code, Some(0), "{confirmed:?}");
    for (arguments, is_bright) in [
        (&["--agent", "mm"][..], true),
        (&["--agent", "workspace:of-file"], true),
        (&["--agent", "mm", "--model", "openai"], false),
        (&[], false),
    ] {
        let said = chat(&site, &server, arguments);
        assert_eq!(said.code, Some(0), "{arguments:?}: {said:?}");
        let has = last(&sent).contains(r#""model":"bright""#);
        assert_eq!(has, is_bright, "{arguments:?}: {}", last(&sent));
    }
    sent.lock().expect("no panic").clear();
    let variables = variables(&server);
    let variables = variables
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    // The reply is no plan, so the run fails.
    site.run_with(&["run", "--agent", "mm", "Go"], &variables);
    let sent = sent.lock().expect("no panic").clone();
    assert!(!sent.is_empty());
    assert!(
        sent.iter().all(|it| it.contains(r#""model":"bright""#)),
        "{sent:?}"
    );
}

#[test]
fn an_agent_whose_models_are_not_there_is_told() {
    let (site, (server, _)) = (Site::new(CAIRN), model());
    site.write("agents/mm.md", "---\nmodel: nope\n---\nP.\n");
    let told = "names no model of the settings, so the default one is used";
    let put = site.run(&["agent", "put", "agents/mm.md"]);
    assert!(put.out.contains(told), "{put:?}");
    let shown = site.run(&["agent", "show", "mm"]);
    assert!(shown.out.contains(told), "{shown:?}");
    let said = chat(&site, &server, &["--agent", "mm"]);
    assert!(said.code == Some(0) && said.err.contains(told), "{said:?}");
}

#[test]
fn a_stored_agent_that_changed_is_reported_after_a_crash() {
    let site = Site::new(CAIRN);
    let server = ModelServer::start(|_| Answer::Hold);
    put(&site, "reviewer", "You review.");
    let variables = variables(&server);
    let variables = variables
        .each_ref()
        .map(|(name, value)| (*name, value.as_str()));
    let mut run = site.start(&["run", "--agent", "reviewer", "Go"], &variables);
    run.kill();
    let told = "agent reviewer, as it was when the run began: it has changed since";
    let told_by_show = told.replacen("agent ", "agent    ", 1);
    let is_told = || site.run(&["show"]).out.contains(&told_by_show);
    assert!(!is_told());
    put(&site, "reviewer", "You review.");
    assert!(!is_told(), "the definition is the same");
    put(&site, "reviewer", "You praise.");
    assert!(is_told());
    let mut resumed = site.start(&["resume"], &variables);
    assert!(resumed.first_line.contains(told), "{}", resumed.first_line);
    resumed.kill();
    put(&site, "reviewer", "You review.");
    assert!(!is_told());
    let deleted = site.run(&["agent", "delete", "reviewer", "--yes"]);
    assert_eq!(deleted.code, Some(0), "{deleted:?}");
    assert!(is_told());
}

#[test]
fn confirmed_files_with_faults_and_names_that_are_taken_are_told() {
    let site = Site::new(CAIRN);
    site.write(".cairn/agents/twin.md", "First.\n");
    site.write(".claude/agents/twin.md", "Second.\n");
    site.write(
        ".claude/agents/bad.md",
        "---\nhidden: 1\nmode: 2\n---\nP.\n",
    );
    let unasked = site.run(&["agent", "trust"]);
    let twin = "! .claude/agents/twin.md: is agent twin by its path, as .cairn/agents/twin.md is";
    assert!(unasked.out.contains(twin), "{unasked:?}");
    let confirmed = with_digest(&site, &["agent", "trust"]);
    let listed = site.run(&["agent", "list"]);
    for done in [&confirmed, &listed] {
        assert_eq!(done.code, Some(0), "{done:?}");
        for line in [
            "! .claude/agents/bad.md:2: hidden is 1",
            "! .claude/agents/bad.md: has faults, so it does not count",
            "so .cairn/agents/twin.md counts",
        ] {
            assert!(done.out.contains(line), "{line}: {done:?}");
        }
    }
    let shown = site.run(&["agent", "show", "workspace:bad"]);
    assert_eq!(shown.code, Some(1), "{shown:?}");
    assert!(shown.err.contains("bad.md:3: mode is 2"), "{shown:?}");
    assert!(!shown.err.contains("\\n"), "{shown:?}");
}

#[test]
fn a_stored_agent_that_a_file_narrows_is_shown_so() {
    let site = Site::new(CAIRN);
    site.write(
        "agents/reviewer.md",
        "---\ntools: [Read, Grep]\n---\nReview.\n",
    );
    let stored = site.run(&["agent", "put", "agents/reviewer.md"]);
    assert_eq!(stored.code, Some(0), "{stored:?}");
    let narrows = "a confirmed file of the workspace narrows it; what counts here:\n    tools      read_file\n";
    site.write(
        ".claude/agents/reviewer.md",
        "---\ntools: [Read, Bash]\n---\nObey.\n",
    );
    let shown = site.run(&["agent", "show", "reviewer"]);
    assert!(!shown.out.contains("narrows it"), "{shown:?}");
    let confirmed = with_digest(&site, &["agent", "trust"]);
    assert_eq!(confirmed.code, Some(0), "{confirmed:?}");
    let shown = site.run(&["agent", "show", "reviewer"]);
    assert!(shown.out.contains(narrows), "{shown:?}");
}

#[test]
fn an_unknown_agent_is_answered_with_the_stored_ones_and_one_hint() {
    let site = Site::new(CAIRN);
    put(&site, "reviewer", "You review.");
    let run = site.run(&["run", "--agent", "nope", "Go"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.err.contains("stored agents: reviewer"), "{run:?}");
    assert_eq!(run.err.matches("cairn agent list").count(), 1, "{run:?}");
}
