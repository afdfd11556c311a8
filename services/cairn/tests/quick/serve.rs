//! Settings with which `cairn serve` does not start. Other commands do their best beside them.

use crate::support::CAIRN;
use cairn_testkit::Site;

/// Commands talk to the services that are named; a server that did would talk to itself.
#[test]
fn a_server_that_is_named_is_not_served() {
    let site = Site::new(CAIRN);
    let server = "http://127.0.0.1:1";
    for (arguments, variables) in [
        (vec!["serve", "--server", server], Vec::new()),
        (vec!["serve"], vec![("CAIRN_SERVER", server)]),
    ] {
        let done = site.run_with(&arguments, &variables);
        assert_eq!((done.code, &*done.out), (Some(2), ""), "{done:?}");
        let reason = format!("client.server names {server}, and cairn serve uses no other server");
        assert!(done.err.contains(&reason), "{done:?}");
    }
    site.append(
        "cairn.toml",
        &format!("\n[client]\nserver = \"{server}\"\n"),
    );
    let done = site.run(&["serve"]);
    assert_eq!((done.code, &*done.out), (Some(2), ""), "{done:?}");
    assert!(done.err.contains("cairn.toml"), "{done:?}");
}

/// It would listen elsewhere than its operator thinks.
#[test]
fn a_settings_file_with_faults_is_not_left_out() {
    let site = Site::new(CAIRN).of_others();
    site.append("cairn.toml", "\n[serve]\nmetric = \"off\"\n");
    // No store could be opened there either.
    let serve = ["serve", "--listen", "127.0.0.1:0", "--store", "docs/one.md"];
    let done = site.run(&serve);
    assert_eq!((done.code, &*done.out), (Some(2), ""), "{done:?}");
    assert!(done.err.contains("serve.metric"), "{done:?}");
    let done = site.run(&["sessions"]);
    assert!(!done.err.contains("serve.metric"), "{done:?}");
    assert!(done.err.contains("is not confirmed"), "{done:?}");
}
