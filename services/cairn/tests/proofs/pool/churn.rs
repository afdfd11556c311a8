//! Changes of the executors: kills, drains, starts with other tools, grants, revocations, registrations.

use super::record::Record;
use super::{CAPABILITIES, Options, REGISTERED, capability, executor, tool_of};
use crate::support::pool::{Api, begin_executor, member};
use cairn_proto::api::grant_tool_request::To;
use cairn_proto::api::revoke_tool_request::Of;
use cairn_testkit::Cluster;
use cairn_testkit::cluster::State;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Changes of one executor come about so often.
const EACH: Duration = Duration::from_secs(20);
/// There are at least so many changes.
const FEWEST: u32 = 20;
/// Between two changes at least.
const LEAST: Duration = Duration::from_millis(100);
/// A killed executor starts again within this time.
const AWAY_MS: u64 = 2500;

/// How often each change was made.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Changes {
    kills: usize,
    drains: usize,
    revoked: usize,
    granted: usize,
    registered: usize,
    removed: usize,
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} kills, {} drains, {} tools revoked, {} granted, {} resources registered, {} removed",
            self.kills, self.drains, self.revoked, self.granted, self.registered, self.removed
        )
    }
}

/// Changes the executors of a cluster.
pub(super) struct Churn<'a, 'b> {
    cluster: &'a mut Cluster<'b>,
    apis: &'a [Api],
    record: &'a Record,
    model: String,
    executors: usize,
    pace: Duration,
    number: u64,
    /// Executors that are away, until then.
    away: BTreeMap<usize, Instant>,
    draining: BTreeSet<usize>,
    /// Tools that were taken, by executor and capability. They stay taken when the executor starts again.
    revoked: BTreeSet<(usize, usize)>,
    /// Tools that were granted, in the same way.
    granted: BTreeSet<(usize, usize)>,
    changes: Changes,
}

/// Starts an executor that asks the model at an address with its name.
pub(super) fn begin(
    cluster: &mut Cluster<'_>,
    model: &str,
    number: usize,
    name: &str,
    tools: &str,
) {
    let url = model.replace("/v1", &format!("/{name}/v1"));
    cluster.set_variable("CAIRN_MODELS__SERVED__BASE_URL", &url);
    begin_executor(cluster, number, name, tools);
}

impl<'a, 'b> Churn<'a, 'b> {
    pub(super) fn new(
        cluster: &'a mut Cluster<'b>,
        apis: &'a [Api],
        record: &'a Record,
        model: &str,
        options: &Options,
    ) -> Self {
        let count = u32::try_from(options.executors.max(1)).unwrap_or(u32::MAX);
        let all = Duration::from_secs(options.seconds);
        Self {
            cluster,
            apis,
            record,
            model: model.to_owned(),
            executors: options.executors,
            pace: (EACH / count).min(all / FEWEST).max(LEAST),
            number: 0,
            away: BTreeMap::new(),
            draining: BTreeSet::new(),
            revoked: BTreeSet::new(),
            granted: BTreeSet::new(),
            changes: Changes::default(),
        }
    }

    /// What was changed so far.
    pub(super) fn changes(&self) -> Changes {
        self.changes
    }

    /// Waits a moment and makes a change.
    pub(super) fn change(&mut self) {
        sleep(self.pace);
        self.number += 1;
        self.start_again(false);
        let number = self.record.pick(&("executor", self.number), self.executors);
        if self.away.contains_key(&number) || self.draining.contains(&number) {
            return;
        }
        match self.record.pick(&("change", self.number), 8) {
            0 | 1 => self.kill(number),
            2 => self.drain(number),
            3 | 4 => self.revoke(number),
            5 => self.grant(number),
            _ => self.register(number),
        }
    }

    fn api(&self) -> &'a Api {
        let place = self.record.pick(&("api", self.number), self.apis.len());
        &self.apis[place]
    }

    /// At most half of the executors are away.
    fn may_go(&self) -> bool {
        (self.away.len() + self.draining.len()) * 2 < self.executors
    }

    fn kill(&mut self, number: usize) {
        if self.may_go() {
            self.cluster.kill_member(member("executor", number));
            let away = self.record.roll(&("away", self.number)) % AWAY_MS;
            let until = Instant::now() + Duration::from_millis(away);
            self.away.insert(number, until);
            self.changes.kills += 1;
        }
    }

    fn drain(&mut self, number: usize) {
        if self.may_go() {
            self.cluster.terminate(member("executor", number));
            self.draining.insert(number);
            self.changes.drains += 1;
        }
    }

    /// Starts the executors whose time has come, or all, each with other tools.
    fn start_again(&mut self, all: bool) {
        let mut ready: Vec<usize> = Vec::new();
        let now = Instant::now();
        ready.extend(
            self.away
                .iter()
                .filter(|it| all || *it.1 <= now)
                .map(|it| it.0),
        );
        for number in self.draining.clone() {
            let state = self.cluster.state(member("executor", number));
            if all || matches!(state, State::Ended { .. } | State::Down) {
                ready.push(number);
            }
        }
        for number in ready {
            self.away.remove(&number);
            self.draining.remove(&number);
            self.begin_with_other_tools(number);
        }
    }

    fn begin_with_other_tools(&mut self, number: usize) {
        let new = self
            .record
            .some_capabilities(&("again", self.number, number));
        let tools: Vec<String> = new.iter().map(|it| tool_of(*it)).collect();
        for capability in 0..CAPABILITIES {
            // A tool that was granted or taken stays so, whatever the settings of the new process say.
            let is_taken = self.revoked.contains(&(number, capability));
            let has = new.contains(&capability) && !is_taken;
            let is_granted = self.granted.contains(&(number, capability));
            self.record.set(number, capability, has || is_granted);
        }
        let name = executor(number);
        begin(self.cluster, &self.model, number, &name, &tools.join(","));
    }

    fn revoke(&mut self, number: usize) {
        let has = |it: &usize| self.record.has(number, *it);
        let Some(taken) = (0..CAPABILITIES).find(has) else {
            return;
        };
        self.api()
            .revoke(&tool_of(taken), Of::Executor(executor(number)));
        self.record.set(number, taken, false);
        self.revoked.insert((number, taken));
        self.granted.remove(&(number, taken));
        self.changes.revoked += 1;
    }

    fn grant(&mut self, number: usize) {
        let taken = self.revoked.iter().find(|it| it.0 == number).copied();
        let Some((_, given)) = taken else {
            return;
        };
        self.give(number, given);
    }

    fn give(&mut self, number: usize, given: usize) {
        self.record.set(number, given, true);
        self.api()
            .grant(&tool_of(given), To::Executor(executor(number)));
        self.revoked.remove(&(number, given));
        self.granted.insert((number, given));
        self.changes.granted += 1;
    }

    fn register(&mut self, number: usize) {
        if self.record.is_registered(number) {
            self.api().remove(&executor(number));
            self.record.set(number, REGISTERED, false);
            self.changes.removed += 1;
            return;
        }
        self.record.set(number, REGISTERED, true);
        let names = capability(REGISTERED);
        self.api().put(&executor(number), "executor", &[&names], 1);
        self.changes.registered += 1;
    }

    /// Starts all executors, and gives back what was taken. One of them gets all capabilities, so each step has a
    /// resource.
    pub(super) fn restore(&mut self) {
        self.start_again(true);
        for (number, given) in self.revoked.clone() {
            self.give(number, given);
        }
        for number in 0..self.executors {
            self.cluster.wait(member("executor", number));
        }
        let all: Vec<String> = (0..=REGISTERED).map(capability).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        for it in 0..=REGISTERED {
            self.record.set(0, it, true);
        }
        self.api().put(&executor(0), "executor", &all, 1);
    }
}
