//! Servers of the store that are away for a while: who asks is told, and who comes meanwhile waits.

use super::*;
use cairn_testkit::eventually;

#[test]
fn a_store_that_is_away_is_reported_of_and_waited_for() {
    let mut server = RedisServer::start();
    let site = Site::new(CAIRN);
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--json"];
    let cairn = site.start(&arguments, &[("CAIRN_STORE", &*server.url())]);
    let address = json(&cairn.first_line)["listen"]
        .as_str()
        .unwrap()
        .to_owned();
    let doctor = || site.run(&["doctor", "--server", &address]);
    assert_eq!(doctor().code, Some(0), "{:?}", doctor());
    server.kill();

    let plan = r#"{"steps": [{"tool": "list_files", "arguments": {}}]}"#;
    site.write("plan.json", plan);
    let command = ["run", "--plan", "plan.json", "--server", &address];
    let impatient = site.run_with(&command, &[("CAIRN_CLIENT__WAIT", "0s")]);
    assert_eq!(impatient.code, Some(1), "{impatient:?}");
    assert!(impatient.err.contains("client.wait"), "{impatient:?}");
    let patient = site.begin(&command, &[], "patient.log");
    eventually("the client tries again", || {
        let log = site.tail("patient.log", 5);
        log.contains("it is tried again for").then_some(())
    });
    eventually("doctor reports that the store is away", || {
        let report = doctor();
        let is_away = report.code == Some(1) && report.out.contains("serving, store away");
        is_away.then_some(())
    });

    server.start_again();
    assert!(patient.wait().success(), "{}", site.tail("patient.log", 9));
    eventually("doctor finds nothing", || {
        (doctor().code == Some(0)).then_some(())
    });
}

/// Whoever names a session needs no server but its own; a list needs all.
#[test]
fn sessions_are_worked_with_while_a_server_of_others_is_away() {
    let mut cluster = RedisCluster::with_replicas();
    let site = Site::new(CAIRN);
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--json"];
    let variables = [
        ("CAIRN_STORE", &*cluster.servers[0].url()),
        ("CAIRN_STORE__REDIS__MODE", "cluster"),
    ];
    let cairn = site.start(&arguments, &variables);
    let address = json(&cairn.first_line)["listen"]
        .as_str()
        .unwrap()
        .to_owned();
    let plan = r#"{"steps": [{"tool": "list_files", "arguments": {}}]}"#;
    site.write("plan.json", plan);
    let sessions = ["a", "b", "c", "d", "e", "f"];
    let run = |session: &str| {
        let command = ["run", "--session", session, "--plan", "plan.json"];
        let command = [&command[..], &["--server", &address]].concat();
        site.run_with(&command, &[("CAIRN_CLIENT__WAIT", "0s")])
    };
    for session in sessions {
        assert_eq!(run(session).code, Some(0));
    }
    cluster.wait_until_replicated();
    let place = |session| cluster.place_of(&format!("default/{session}"));
    let away = place("a");
    let elsewhere: Vec<_> = sessions
        .into_iter()
        .filter(|it| place(it) != away)
        .collect();
    assert!(!elsewhere.is_empty());
    // Nobody takes its place.
    cluster.replicas[away].kill();
    cluster.servers[away].kill();
    for session in elsewhere {
        let show = ["show", session, "--server", &address];
        let shown = site.run_with(&show, &[("CAIRN_CLIENT__WAIT", "0s")]);
        assert_eq!(shown.code, Some(0), "{session}: {shown:?}");
        let ran = run(session);
        assert_eq!(ran.code, Some(0), "{session}: {ran:?}");
    }
    let listed = ["sessions", "--server", &address];
    let listed = site.run_with(&listed, &[("CAIRN_CLIENT__WAIT", "0s")]);
    assert_eq!(listed.code, Some(1), "{listed:?}");
}
