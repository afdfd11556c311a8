//! A store that many processes share: who serves it, who does not, and what is said of servers that
//! do not keep what they answered.

use crate::support::CAIRN;
use cairn_testkit::site::Running;
use cairn_testkit::{RedisCluster, RedisServer, Site, eventually};
use serde_json::{Value, json as object};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

const GOAL: &str = "Which files under docs mention Redis?";

fn json(line: &str) -> Value {
    serde_json::from_str(line).expect("a line of JSON")
}

/// Serves a store until the value is dropped, and tells at which address.
fn serve(site: &Site, store: &RedisServer) -> (Running, String) {
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--json"];
    let serving = site.start(&arguments, &[("CAIRN_STORE", &*store.url())]);
    let address = json(&serving.first_line)["listen"]
        .as_str()
        .unwrap()
        .to_owned();
    (serving, address)
}

/// A tool that says that it began, and ends when it is let.
const GATE: &str = r#"
[[tools.commands]]
name = "gate"
description = "Waits."
argv = ["sh", "-c", "name=$(cut -d '\"' -f 4); : >$LEDGER.began-$name; until [ -e $LEDGER.open-$name ] || [ ! -e $LEDGER.began-$name ]; do sleep 0.02; done"]
effect = "pure"
time_limit_ms = 30000
env = ["LEDGER"]
parameters = { type = "object", properties = { what = { type = "string" } }, required = ["what"], additionalProperties = false }
"#;

/// A tool whose calls cannot be taken back.
const PAY: &str = r#"
[[tools.commands]]
name = "pay"
description = "Pays."
argv = ["sh", "-c", "cat >/dev/null; echo $CAIRN_CALL_KEY >>$LEDGER.paid"]
effect = "effectful"
time_limit_ms = 5000
env = ["LEDGER"]
parameters = { type = "object" }
"#;

/// A run of two steps that wait.
struct Gate;

impl Gate {
    fn site(site: &Site) -> &Site {
        site.append("cairn.toml", GATE);
        let step = |what| object!({"tool": "gate", "arguments": {"what": what}});
        let plan = object!({"steps": [step("one"), step("two")]});
        site.write("plan.json", &plan.to_string());
        site
    }

    fn begin(site: &Site, address: &str) -> Child {
        let arguments = ["run", "--server", address, "--plan", "plan.json", "--json"];
        let mut run = site.command(&arguments);
        let run = run.stdout(Stdio::piped()).stderr(Stdio::piped());
        run.spawn().unwrap()
    }

    fn wait_for(site: &Site, file: &str) {
        eventually(file, || site.read(file));
    }
}

mod addresses;
mod redis_away;
mod redis_ended;
mod redis_golden;
mod redis_settings;
mod redis_several;

/// Each needs a server of Redis.
mod redis {
    use super::*;

    #[test]
    fn one_process_serves_a_shared_store_and_another_continues() {
        let server = RedisServer::start();
        let site = Site::new(CAIRN);
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--json"];
        let variables = [("CAIRN_STORE", &*server.url())];
        let first = site.start(&arguments, &variables);
        let address = json(&first.first_line)["listen"]
            .as_str()
            .unwrap()
            .to_owned();
        let ran = site.run(&["run", "--server", &address, "--json", GOAL]);
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let journal = |address: &str| {
            let sessions = site.run(&["sessions", "--json", "--server", address]);
            let id = json(sessions.out.trim())["id"].as_str().unwrap().to_owned();
            site.run(&["export", &id, "--server", address])
        };
        let before = journal(&address);
        assert_eq!(before.code, Some(0), "{before:?}");
        assert!(before.out.contains("run_completed"), "{}", before.out);
        drop(first);

        let second = site.start(&arguments, &variables);
        let address = json(&second.first_line)["listen"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(journal(&address).out, before.out);
        assert!(!site.has_store(), "a file was made, too");
    }

    #[test]
    fn commands_talk_to_who_serves_a_shared_store() {
        let server = RedisServer::start();
        let site = Site::new(CAIRN);
        for command in [
            &["run", "x"][..],
            &["resume"],
            &["sessions"],
            &["pending"],
            &["cancel", "s-1"],
        ] {
            let output = site.run_with(command, &[("CAIRN_STORE", &server.url())]);
            assert_eq!(output.code, Some(2), "{output:?}");
            assert!(output.err.contains("--server"), "{}", output.err);
        }
        assert_eq!(
            server.ask(&["DBSIZE"]).trim(),
            ":0",
            "something was written"
        );
    }

    #[test]
    fn a_file_that_is_named_takes_the_place_of_servers_that_are_configured() {
        let site = Site::new(CAIRN);
        site.append(
            "cairn.toml",
            "\n[store.redis]\nurl = \"redis://127.0.0.1:1\"\n",
        );
        let output = site.run(&["run", "--store", "mine.db", "--json", GOAL]);
        assert_eq!(output.code, Some(0), "{output:?}");
        let variables = [("CAIRN_STORE", "yours.db")];
        let output = site.run_with(&["run", "--json", GOAL], &variables);
        assert_eq!(output.code, Some(0), "{output:?}");
        assert!(site.path().join("mine.db").exists() && site.path().join("yours.db").exists());
    }

    #[test]
    fn the_doctor_tells_servers_that_lose_what_they_answered() {
        let site = Site::new(CAIRN);
        let good = RedisServer::start();
        let output = site.run(&["doctor", "--json", "--store", &good.url()]);
        assert_eq!(output.code, Some(0), "{output:?}");
        assert_eq!(json(&output.out)["state"], "durable");

        let bad = RedisServer::with(&[
            ("appendfsync", "everysec"),
            ("maxmemory-policy", "allkeys-lru"),
        ]);
        let output = site.run(&["doctor", "--json", "--store", &bad.url()]);
        assert_eq!(output.code, Some(1), "{output:?}");
        let found = json(&output.out);
        assert_eq!(found["state"], "degraded");
        assert_eq!(found["faults"].as_array().unwrap().len(), 2, "{found}");
        assert_eq!(bad.ask(&["DBSIZE"]).trim(), ":0", "the doctor made a store");

        let nobody = site.run(&["doctor", "--store", "redis://127.0.0.1:1"]);
        assert_eq!(nobody.code, Some(1), "{nobody:?}");
        assert!(nobody.out.contains("unusable"), "{}", nobody.out);
    }

    #[test]
    fn servers_that_lose_what_they_answered_are_reported_or_refused() {
        let bad = RedisServer::with(&[("appendfsync", "everysec")]);
        let site = Site::new(CAIRN);
        let variables = [("CAIRN_STORE", &*bad.url())];
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--json"];
        let refused = [&arguments[..], &["--require-durable"]].concat();
        let refused = site.run_with(&refused, &variables);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(
            refused.err.contains("appendfsync is everysec"),
            "{refused:?}"
        );
        let said = refused.err.matches("cannot be opened").count();
        assert_eq!(said, 1, "{refused:?}");

        let serving = site.start(&arguments, &variables);
        let address = json(&serving.first_line)["listen"]
            .as_str()
            .unwrap()
            .to_owned();
        let doctor = site.run(&["doctor", "--json", "--server", &address]);
        assert_eq!(doctor.code, Some(1), "{doctor:?}");
        assert_eq!(json(&doctor.out)["state"], "serving, store degraded");
        let log = site.read("listen.log").expect("its log");
        assert!(
            log.contains("degraded") && log.contains("appendfsync"),
            "{log}"
        );
    }

    /// A server that comes back with an older log, in the middle of a run.
    #[test]
    fn a_run_whose_store_went_back_ends_for_its_watcher_and_is_quarantined() {
        let mut server = RedisServer::start();
        let site = Site::new(CAIRN);
        Gate::site(&site);
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--json"];
        let serving = site.start(&arguments, &[("CAIRN_STORE", &*server.url())]);
        let address = json(&serving.first_line)["listen"].clone();
        let address = address.as_str().unwrap();

        let run = Gate::begin(&site, address);
        let log = server.folder().join("appendonlydir");
        let older = server.folder().join("older");
        Gate::wait_for(&site, "ledger.began-one");
        copy(&log, &older);
        site.write("ledger.open-one", "");
        Gate::wait_for(&site, "ledger.began-two");
        server.kill();
        std::fs::remove_dir_all(&log).unwrap();
        copy(&older, &log);
        server.start_again();

        let ended = run.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains("lost acknowledged writes"), "{said}");
        let sessions = site.run(&["sessions", "--json", "--server", address]);
        assert_eq!(json(sessions.out.trim())["status"], "quarantined");
        let doctor = site.run(&["doctor", "--json", "--server", address]);
        assert_eq!(json(&doctor.out)["state"], "serving, store degraded");
        let log = site.read("listen.log").expect("its log");
        assert!(
            log.contains("acknowledged writes of a session are lost"),
            "{log}"
        );
        // Somebody looks at it and lets it go on.
        site.write("ledger.open-two", "");
        let session = json(sessions.out.trim())["id"].clone();
        let session = session.as_str().unwrap();
        let accepted = ["resume", session, "--accept-loss", "--server", address];
        let resumed = site.run(&accepted);
        assert_eq!(resumed.code, Some(0), "{resumed:?}");
    }

    /// A call with side effects that the store has forgotten is not made again before a person has
    /// been told and has said so.
    #[test]
    fn a_payment_that_the_store_forgot_is_not_made_again_without_a_word() {
        let mut server = RedisServer::start();
        let site = Site::new(CAIRN);
        site.append("cairn.toml", GATE);
        site.append("cairn.toml", PAY);
        let gate = |what| object!({"tool": "gate", "arguments": {"what": what}});
        let pay = object!({"tool": "pay", "arguments": {}});
        let plan = object!({"steps": [gate("one"), pay, gate("two")]});
        site.write("plan.json", &plan.to_string());
        let arguments = ["serve", "--listen", "127.0.0.1:0", "--json"];
        let serving = site.start(&arguments, &[("CAIRN_STORE", &*server.url())]);
        let address = json(&serving.first_line)["listen"].clone();
        let address = address.as_str().unwrap();
        let paid = || site.read("ledger.paid").unwrap_or_default().lines().count();

        let run = Gate::begin(&site, address);
        Gate::wait_for(&site, "ledger.began-one");
        let log = server.folder().join("appendonlydir");
        let older = server.folder().join("older");
        copy(&log, &older);
        site.write("ledger.open-one", "");
        Gate::wait_for(&site, "ledger.began-two");
        assert_eq!(paid(), 1);
        server.kill();
        std::fs::remove_dir_all(&log).unwrap();
        copy(&older, &log);
        server.start_again();
        let ended = run.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        site.write("ledger.open-two", "");

        let sessions = site.run(&["sessions", "--json", "--server", address]);
        let listed = json(sessions.out.trim());
        assert_eq!(listed["status"], "quarantined");
        assert_eq!(listed["quarantine_reason"], "writes_lost");
        let session = listed["id"].as_str().unwrap();
        let shown = site.run(&["show", session, "--server", address]);
        let command = format!("cairn resume {session} --accept-loss");
        assert!(shown.out.contains(&command), "{}", shown.out);
        for arguments in [
            &["resume", "--server", address][..],
            &["resume", session, "--server", address],
            &["watch", session, "--server", address],
        ] {
            let refused = site.run(arguments);
            assert_eq!(refused.code, Some(1), "{refused:?}");
            assert!(refused.err.contains("made again"), "{}", refused.err);
            let command = format!("cairn resume {session} --accept-loss");
            assert!(refused.err.contains(&command), "{}", refused.err);
        }
        assert_eq!(paid(), 1, "it was paid again");

        let accepted = ["resume", session, "--accept-loss", "--server", address];
        let resumed = site.run(&accepted);
        assert_eq!(resumed.code, Some(0), "{resumed:?}");
        assert_eq!(paid(), 2);
    }

    pub(super) fn copy(from: &Path, to: &Path) {
        std::fs::create_dir(to).unwrap();
        for file in std::fs::read_dir(from).unwrap() {
            let file = file.unwrap();
            std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        let server = RedisServer::with(&[("requirepass", "hush-1234")]);
        let site = Site::new(CAIRN);
        let url = |password: &str| server.url().replace("//", &format!("//:{password}@"));
        for (password, code) in [("hush-1234", 0), ("hush-4321", 1)] {
            let variables = [("CAIRN_STORE", &*url(password))];
            let doctor = site.run_with(&["doctor"], &variables);
            assert_eq!(doctor.code, Some(code), "{doctor:?}");
            let settings = site.run_with(&["check-config"], &variables);
            let refused = site.run_with(&["sessions"], &variables);
            for output in [doctor, settings, refused] {
                let said = output.out + &output.err;
                assert!(!said.contains("hush"), "{said}");
            }
        }
    }
}
