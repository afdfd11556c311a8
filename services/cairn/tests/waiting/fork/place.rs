//! A store that is served.

use super::{CAIRN, TWO, json_of};
use cairn_testkit::site::Running;
use cairn_testkit::{Journal, Output, Site, TestStore};
use serde_json::Value;

/// A store that is served, and who asks.
pub(crate) struct Place {
    pub(crate) site: Site,
    address: String,
    _serving: Running,
    _store: TestStore,
}

impl Place {
    pub(crate) fn over(store: TestStore) -> Self {
        let site = Site::new(CAIRN);
        site.write("plan.json", TWO);
        let serve = ["serve", "--listen", "127.0.0.1:0", "--json"];
        let serving = site.start(&serve, &store.variables());
        let reported: Value = serde_json::from_str(&serving.first_line).expect("JSON");
        let address = reported["listen"].as_str().expect("an address").to_owned();
        Self {
            site,
            address,
            _serving: serving,
            _store: store,
        }
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        let there = [arguments, &["--server", &self.address]].concat();
        self.site.run(&there)
    }

    pub(crate) fn done(&self, arguments: &[&str]) -> Output {
        let output = self.run(arguments);
        assert_eq!(output.code, Some(0), "{arguments:?}: {output:?}");
        output
    }

    pub(crate) fn journal(&self, session: &str) -> Journal {
        Journal::read(&self.done(&["export", session]).out)
    }

    /// Forks under this name, and says where it was cut.
    pub(crate) fn fork(&self, session: &str, child: &str, more: &[&str]) -> u64 {
        let arguments = ["fork", session, "--new-session", child, "--json"];
        let reported = json_of(&self.run(&[&arguments, more].concat()));
        assert_eq!(reported["session"], child, "{reported}");
        assert_eq!(reported["forked_from"]["session"], session, "{reported}");
        reported["forked_from"]["seq"].as_u64().expect("a number")
    }

    pub(crate) fn state(&self, session: &str, at: u64) -> Value {
        json_of(&self.run(&["state", session, "--at", &at.to_string(), "--json"]))
    }

    pub(crate) fn remembered(&self, session: &str) -> String {
        self.done(&["memory", "list", "--session", session, "--json"])
            .out
    }

    pub(crate) fn recorded(&self, what: &str) -> usize {
        let arguments = format!(r#"{{"what":"{what}"}}"#);
        self.site.ledger().times(&arguments)
    }

    pub(crate) fn status(&self, session: &str) -> Value {
        let shown = json_of(&self.run(&["show", session, "--json"]));
        shown["session"]["latest_run"]["status"].clone()
    }
}
