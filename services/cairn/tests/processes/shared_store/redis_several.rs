//! Commands that are told of several servers over one store: one of them is enough.

use super::{CAIRN, Gate, json, serve};
use cairn_testkit::{RedisServer, Site};

/// Whichever of the two dies in the middle of the run.
#[test]
fn a_run_is_watched_to_its_end_whichever_server_dies() {
    for victim in [0, 1] {
        let store = RedisServer::start();
        let site = Site::new(CAIRN);
        Gate::site(&site);
        let mut servers = [0, 1].map(|_| serve(&site, &store));
        let both = servers
            .each_ref()
            .map(|(_, address)| address.clone())
            .join(",");
        let run = Gate::begin(&site, &both);
        Gate::wait_for(&site, "ledger.began-one");
        servers[victim].0.kill();
        site.write("ledger.open-one", "");
        Gate::wait_for(&site, "ledger.began-two");
        site.write("ledger.open-two", "");
        let ended = run.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(0), "{ended:?}");
        let seen = String::from_utf8(ended.stdout).unwrap();
        let numbers = seen.lines().map(|line| json(line)["seq"].as_u64().unwrap());
        let numbers: Vec<u64> = numbers.collect();
        let first = numbers[0];
        let whole: Vec<u64> = (first..first + numbers.len() as u64).collect();
        assert_eq!(numbers, whole, "no gap, and nothing twice");
        assert!(seen.contains("run_completed"), "{seen}");

        // Who is there and who is not is told of each.
        let doctor = site.run(&["doctor", "--json", "--server", &both]);
        assert_eq!(doctor.code, Some(1), "{doctor:?}");
        let states: Vec<_> = doctor
            .out
            .lines()
            .map(|line| json(line)["state"].clone())
            .collect();
        assert_eq!(states[victim], "unreachable", "{doctor:?}");
        assert_ne!(states[1 - victim], "unreachable", "{doctor:?}");
    }
}
