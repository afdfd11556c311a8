//! Servers whose settings are changed while the services are there.

use super::*;
use cairn_testkit::eventually;

/// Makes clients connect anew, to a server that looks like another.
fn changes(server: &RedisServer, setting: &str, value: &str) {
    server.ask(&["CONFIG", "SET", setting, value]);
    server.ask(&["REPLICAOF", "127.0.0.1", "1"]);
    server.ask(&["REPLICAOF", "NO", "ONE"]);
    server.ask(&["CLIENT", "KILL", "TYPE", "normal"]);
}

fn wait_for_state(site: &Site, address: &str, state: &str) {
    eventually(state, || {
        let doctor = site.run(&["doctor", "--json", "--server", address]);
        (json(&doctor.out)["state"] == state).then_some(())
    });
}

#[test]
fn a_store_that_has_to_be_durable_and_is_not_any_more_takes_no_new_run() {
    let server = RedisServer::start();
    let site = Site::new(CAIRN);
    Gate::site(&site);
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--json"];
    let arguments = [&arguments[..], &["--require-durable"]].concat();
    let serving = site.start(&arguments, &[("CAIRN_STORE", &*server.url())]);
    let address = json(&serving.first_line)["listen"].clone();
    let address = address.as_str().unwrap();
    wait_for_state(&site, address, "serving, store durable");
    let accepted = Gate::begin(&site, address);
    Gate::wait_for(&site, "ledger.began-one");

    changes(&server, "appendfsync", "everysec");
    wait_for_state(&site, address, "serving, store degraded");
    let new = ["run", "--server", address, "--json", GOAL];
    let new = || site.run_with(&new, &[("CAIRN_CLIENT__WAIT", "1s")]);
    // How many wait, and what may be taken, is counted once a second.
    let start = Instant::now();
    let refused = loop {
        let refused = new();
        if refused.code != Some(0) {
            break refused;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "never refused");
    };
    let said = &refused.err;
    assert!(said.contains("store.redis.require_durable"), "{said}");
    for (open, began) in [("open-one", "began-two"), ("open-two", "began-two")] {
        site.write(&format!("ledger.{open}"), "");
        Gate::wait_for(&site, &format!("ledger.{began}"));
    }
    let ended = accepted.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");

    changes(&server, "appendfsync", "always");
    wait_for_state(&site, address, "serving, store durable");
    let start = Instant::now();
    while new().code != Some(0) {
        assert!(start.elapsed() < Duration::from_secs(30), "never accepted");
    }
    let log = site.read("listen.log").expect("its log");
    for reported in ["appendfsync is everysec", "no new run is accepted", "again"] {
        assert!(log.contains(reported), "{reported}: {log}");
    }
}
