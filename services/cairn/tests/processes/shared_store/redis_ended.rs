//! Losses of sessions whose runs have ended in what is left.

use super::redis::copy;
use super::*;

#[test]
fn a_session_whose_runs_have_ended_is_let_go_on_after_a_loss() {
    let mut server = RedisServer::start();
    let site = Site::new(CAIRN);
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--json"];
    let serving = site.start(&arguments, &[("CAIRN_STORE", &*server.url())]);
    let address = json(&serving.first_line)["listen"]
        .as_str()
        .unwrap()
        .to_owned();
    let plan = r#"{"steps": [{"tool": "list_files", "arguments": {}}]}"#;
    site.write("plan.json", plan);
    let cairn = |words: &[&str]| site.run(&[words, &["--server", &*address]].concat());
    let run = || cairn(&["run", "--session", "done", "--plan", "plan.json"]);
    assert_eq!(run().code, Some(0));
    let log = server.folder().join("appendonlydir");
    let older = server.folder().join("older");
    copy(&log, &older);
    assert_eq!(run().code, Some(0));
    server.kill();
    std::fs::remove_dir_all(&log).unwrap();
    copy(&older, &log);
    server.start_again();

    // The one run that is left has ended, and so nothing of it continues.
    let refused = cairn(&["resume", "done"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.err.contains("cairn resume done --accept-loss"),
        "{refused:?}"
    );
    let accepted = cairn(&["resume", "done", "--accept-loss"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    assert!(
        accepted.out.contains("not quarantine any more"),
        "{accepted:?}"
    );
    let again = run();
    assert_eq!(again.code, Some(0), "{again:?}");
    let nothing = cairn(&["resume", "done"]);
    assert!(nothing.out.contains("nothing unfinished"), "{nothing:?}");
}
