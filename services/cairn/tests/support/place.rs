//! A store, and commands that are given one after the other. Each is a process of its own, or comes to
//! a server of its own, so that nothing is known but what is stored.

#![allow(dead_code, clippy::expect_used, reason = "each test uses a part of it")]

use super::CAIRN;
use cairn_testkit::site::Running;
use cairn_testkit::{Journal, Output, Site, TestStore};
use serde_json::Value;
use std::sync::Arc;

/// Where commands are given, and where what they do is stored.
pub(crate) struct Place {
    pub(crate) site: Site,
    store: Arc<TestStore>,
    /// What the names of all keys begin with, if others are in the same store.
    prefix: Option<String>,
}

impl Place {
    pub(crate) fn over(store: TestStore) -> Self {
        let site = Site::new(CAIRN);
        let (store, prefix) = (Arc::new(store), None);
        Self {
            site,
            store,
            prefix,
        }
    }

    /// A place for itself beside others: a file of its own, or a part of the same servers.
    pub(crate) fn beside_others(store: &Arc<TestStore>, name: &str) -> Self {
        Self {
            site: Site::new(CAIRN),
            store: Arc::clone(store),
            prefix: Some(name.to_owned()),
        }
    }

    /// A store elsewhere is served for this command, and by nobody afterwards.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.run_with(arguments, &[])
    }

    /// The same with more variables, for whoever gives the command.
    pub(crate) fn run_with(&self, arguments: &[&str], variables: &[(&str, &str)]) -> Output {
        if self.store.is_file() {
            return self.site.run_with(arguments, variables);
        }
        let (mut serving, address) = self.serve(&[]);
        let there = [arguments, &["--server", &address]].concat();
        let output = self.site.run_with(&there, variables);
        serving.interrupt();
        assert_eq!(serving.wait_for_code(), Some(0), "{arguments:?}");
        output
    }

    /// Runs a command that has to end so.
    pub(crate) fn with_code(&self, code: i32, arguments: &[&str]) -> Output {
        let output = self.run(arguments);
        assert_eq!(output.code, Some(code), "{arguments:?}: {output:?}");
        output
    }

    /// Serves the store until the value is dropped, and tells at which address.
    pub(crate) fn serve(&self, variables: &[(&str, &str)]) -> (Running, String) {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--json"];
        let mut variables = [&self.store.variables(), variables].concat();
        let prefix = self.prefix.as_deref();
        variables.extend(prefix.map(|prefix| ("CAIRN_STORE__REDIS__PREFIX", prefix)));
        let serving = self.site.start(&serve, &variables);
        let told: Value = serde_json::from_str(&serving.first_line).expect("a line of JSON");
        let address = told["listen"].as_str().expect("an address").to_owned();
        (serving, address)
    }

    /// Starts a command, and leaves it running with the server that it comes to, if there is one.
    pub(crate) fn start(&self, arguments: &[&str]) -> (Running, Option<Running>) {
        if self.store.is_file() {
            return (self.site.start(arguments, &[]), None);
        }
        let (serving, address) = self.serve(&[]);
        let there = [arguments, &["--server", &address]].concat();
        (self.site.start(&there, &[]), Some(serving))
    }

    /// The ids of all sessions.
    pub(crate) fn sessions(&self) -> Vec<String> {
        let listed = self.with_code(0, &["sessions", "--json"]).out;
        let lines = listed
            .lines()
            .map(|line| -> Value { serde_json::from_str(line).expect("a line of JSON") });
        lines
            .map(|it| it["id"].as_str().expect("an id").to_owned())
            .collect()
    }

    pub(crate) fn journal(&self, session: &str) -> Journal {
        Journal::read(&self.with_code(0, &["export", session]).out)
    }

    /// The same from a server that is there.
    pub(crate) fn journal_at(&self, address: &str, session: &str) -> Journal {
        let output = self.site.run(&["export", session, "--server", address]);
        assert_eq!(output.code, Some(0), "{session}: {output:?}");
        Journal::read(&output.out)
    }
}
