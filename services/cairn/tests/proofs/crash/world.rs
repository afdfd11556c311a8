//! The processes: services over a real server of the store, and what is done to them.

use super::CAIRN;
use super::chaos::{Chaos, What};
use super::settings::{Check, Options};
use super::stores::Stores;
use cairn_testkit::cluster::{Member, SERVICES, State};
use cairn_testkit::{Cluster, Site};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Processes of each of the services.
const COUNTS: [usize; 5] = [2, 2, 2, 1, 2];
/// The usual lease, and a little more.
const LONGEST_LEASE: Duration = Duration::from_secs(3);
/// With each of so many actions an answer of the store is lost as well.
const LOSSES: usize = 3;
/// Between two looks at the processes when nothing else is to be done.
const LOOK: Duration = Duration::from_millis(50);
/// The longest that processes may take to serve when nobody disturbs them any more.
const SETTLE: Duration = Duration::from_secs(60);

/// As the usual script, but without waiting for the disk: the machine does not die here. It also
/// writes down when it began.
const RECORD: &str = r#"
set -eu
printf '%s %s\n' "$CAIRN_CALL_KEY" "$(date +%s%3N)" >>"$LEDGER.begun"
arguments=$(cat)
printf '%s %s\n' "$CAIRN_CALL_KEY" "$arguments" >>"$LEDGER"
echo "recorded $arguments"
"#;

/// The same, for those who may.
const SPEND: &str = r#"
[[tools.commands]]
name = "spend"
description = "Writes a line into the ledger that somebody has allowed."
argv = ["sh", "record.sh"]
confine = "none"
effect = "effectful"
time_limit_ms = 2000
env = ["LEDGER"]
parameters = { type = "object" }
"#;

/// A disk that has other things to do.
const NOISE: &str = "while :; do dd if=/dev/zero of=noise bs=1M count=48 conv=fsync; done";

/// What is done later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Later {
    Begin(Member),
    Thaw(Member),
    StartStore(usize),
}

/// What was done.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Kills and freezes by whom they met and how.
    pub(crate) counts: BTreeMap<String, usize>,
    pub(crate) kills: usize,
    pub(crate) freezes: usize,
    /// Processes that ended by themselves after they had served, and never should.
    pub(crate) died: Vec<String>,
    /// Processes that gave up before they served, and were started again.
    pub(crate) gave_up: Vec<String>,
}

/// All processes.
pub(crate) struct World<'a> {
    site: &'a Site,
    cluster: Cluster<'a>,
    stores: Stores,
    members: Vec<Member>,
    later: Vec<(Instant, Later)>,
    noise: Option<Child>,
    store_kills: usize,
    acts: usize,
    outlasts: bool,
    pub(crate) done: Done,
}

/// A folder with leases that many freezes outlast. A call has longer than any freeze: a tool that
/// waits for a frozen process would be given up, and its run would fail, as it should.
///
/// The tools service may take the store's time to be two seconds later than it is, and refuses calls
/// for which it would then be too late. With leases below three seconds that is all calls for a
/// while, and runs fail.
pub(crate) fn site(settings: &Options) -> Site {
    let lease = format!(r#"lease = "{}""#, settings.lease);
    let site = Site::new(CAIRN);
    let settings = site.read("cairn.toml").expect("settings");
    let settings = settings.replace(r#"lease = "1s""#, &lease);
    let settings = settings + SPEND;
    let settings = settings.replacen("[[", "[tools]\nask = [\"spend\"]\n\n[[", 1);
    let settings = settings.replace("time_limit_ms = 2000", "time_limit_ms = 6000");
    site.write("cairn.toml", &settings);
    site.write("record.sh", RECORD);
    site
}

impl<'a> World<'a> {
    /// Starts everything, and returns when all of it serves.
    pub(crate) fn start(site: &'a Site, settings: &Options) -> Self {
        let stores = Stores::start(&settings.appendfsync, settings.cluster);
        let folder = stores.folder();
        let mut variables = stores.variables();
        variables.push(("CAIRN_SABOTAGE", settings.sabotage().to_owned()));
        let variables: Vec<_> = variables.iter().map(|(n, v)| (*n, v.as_str())).collect();
        let cluster = Cluster::several(site, &variables, COUNTS);
        let noise = settings.noisy_disk.then(|| {
            let mut noise = Command::new("setpriv");
            let noise = noise.args(["--pdeathsig", "KILL", "sh", "-c", NOISE]);
            let noise = noise.current_dir(&folder).stderr(Stdio::null()).spawn();
            noise.expect("setpriv and sh")
        });
        Self {
            site,
            members: cluster.members(),
            cluster,
            stores,
            later: Vec::new(),
            noise,
            store_kills: 0,
            acts: 0,
            outlasts: settings.without == Some(Check::Fencing),
            done: Done::default(),
        }
    }

    /// Where clients find the orchestrators.
    pub(crate) fn orchestrators(&self) -> Vec<String> {
        self.cluster.addresses("orchestrator")
    }

    /// Lets actions happen until there have been so many kills.
    pub(crate) fn disturb(&mut self, seed: u64, kills: usize) {
        let mut chaos = Chaos::new(seed, self.members.len());
        let mut action = chaos.action();
        let mut next = Instant::now() + action.after;
        let mut reported = Instant::now();
        while self.done.kills < kills {
            self.look_after();
            if Instant::now() >= next {
                self.act(action.what);
                action = chaos.action();
                next = Instant::now() + action.after;
            }
            if reported.elapsed() > Duration::from_secs(60) {
                reported = Instant::now();
                println!("{} kills, {} freezes", self.done.kills, self.done.freezes);
            }
            let due = self.later.iter().map(|(at, _)| *at);
            let until = due.chain([next, Instant::now() + LOOK]).min();
            let until = until.unwrap_or(next);
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
        }
    }

    /// Thaws and starts everything, and returns when all of it serves.
    ///
    /// # Panics
    /// If something does not, with the end of the logs.
    pub(crate) fn settle(&mut self) {
        for (_, later) in std::mem::take(&mut self.later) {
            self.catch_up(later);
        }
        self.stores.settle();
        let began = Instant::now();
        let is_up = |world: &mut Self, member| world.cluster.state(member) == State::Serving;
        while !self.members.clone().into_iter().all(|it| is_up(self, it)) {
            self.look_after();
            let hung = began.elapsed() > SETTLE;
            assert!(!hung, "not everything serves again:\n{}", self.logs());
            std::thread::sleep(LOOK);
        }
    }

    /// Does what is due, and starts again what ended by itself.
    pub(crate) fn look_after(&mut self) {
        let now = Instant::now();
        let (due, later) = std::mem::take(&mut self.later)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.later = later;
        let due: Vec<(Instant, Later)> = due;
        due.into_iter().for_each(|(_, it)| self.catch_up(it));
        for member in self.members.clone() {
            if let State::Ended { served, status } = self.cluster.state(member) {
                let tail = self.site.tail(&member.log(), 12);
                let story = format!("{member} ended by itself: {status}\n{tail}");
                match served {
                    true => self.done.died.push(story),
                    false => self.done.gave_up.push(story),
                }
                let gave_up = self.done.gave_up.len();
                assert!(gave_up < 1000, "no start succeeds:\n{}", self.logs());
                self.cluster.begin(member);
            }
        }
    }

    fn catch_up(&mut self, later: Later) {
        match later {
            Later::Begin(member) => self.cluster.begin(member),
            Later::Thaw(member) => self.cluster.thaw(member),
            Later::StartStore(number) => self.stores.start_again(number),
        }
    }

    fn act(&mut self, what: What) {
        self.acts += 1;
        if self.acts.is_multiple_of(LOSSES) && self.stores.lose_an_answer() {
            self.count("redis answer lost".to_owned());
        }
        match what {
            What::Kill { victim, down } => self.kill(victim, down),
            What::Freeze { victim, span } => self.freeze(victim, span),
            What::KillStore { is_aimed, down } => self.kill_store(is_aimed, down),
        }
    }

    /// Kills one server of the store after the other.
    fn kill_store(&mut self, is_aimed: bool, down: Duration) {
        let number = self.store_kills % self.stores.count();
        let Some(how) = self.stores.kill(number, is_aimed) else {
            return;
        };
        self.store_kills += 1;
        self.count(format!("redis killed {how}"));
        self.done.kills += 1;
        let again = Instant::now() + down;
        self.later.push((again, Later::StartStore(number)));
    }

    /// Kills the victim, or the next one that is there.
    fn kill(&mut self, victim: usize, down: Duration) {
        let is_there = |state: State| matches!(state, State::Starting | State::Serving);
        let Some((member, state)) = self.find(victim, is_there) else {
            return;
        };
        let is_frozen = self.is_frozen(member);
        if self.outlasts && is_frozen {
            // Without fencing it matters that former owners wake up.
            return;
        }
        self.later
            .retain(|(_, later)| *later != Later::Thaw(member));
        self.cluster.kill_member(member);
        let how = match state {
            _ if is_frozen => "killed while frozen",
            State::Starting => "killed while starting",
            _ => "killed",
        };
        self.count(format!("{} {how}", member.service));
        self.done.kills += 1;
        let again = Instant::now() + down;
        self.later.push((again, Later::Begin(member)));
    }

    /// Freezes the victim, or the next one that serves and is not frozen.
    fn freeze(&mut self, victim: usize, span: Duration) {
        let mut victim = victim;
        if self.outlasts {
            // Without fencing it is owners that matter, one of which has to be awake.
            let orchestrators = self.cluster.members_of("orchestrator");
            if orchestrators.iter().any(|it| self.is_frozen(*it)) {
                return;
            }
            let wanted = orchestrators[victim % orchestrators.len()];
            let place = self.members.iter().position(|it| *it == wanted);
            victim = place.unwrap_or(victim);
        }
        let Some((member, _)) = self.find(victim, |state| state == State::Serving) else {
            return;
        };
        if self.is_frozen(member) {
            return;
        }
        let span = match self.outlasts {
            true => span + LONGEST_LEASE,
            false => span,
        };
        self.cluster.freeze(member);
        self.count(format!("{} frozen", member.service));
        self.done.freezes += 1;
        self.later
            .push((Instant::now() + span, Later::Thaw(member)));
    }

    fn find(&mut self, victim: usize, fits: impl Fn(State) -> bool) -> Option<(Member, State)> {
        let count = self.members.len();
        let others = (0..count).map(|step| self.members[(victim + step) % count]);
        let others: Vec<Member> = others.collect();
        let mut states = others.into_iter().map(|it| (it, self.cluster.state(it)));
        states.find(|(_, state)| fits(*state))
    }

    fn is_frozen(&self, member: Member) -> bool {
        self.later.iter().any(|(_, it)| *it == Later::Thaw(member))
    }

    fn count(&mut self, what: String) {
        *self.done.counts.entry(what).or_default() += 1;
    }

    /// The members of all queues of the store that are not empty.
    pub(crate) fn queued(&self) -> Vec<String> {
        self.stores.queued()
    }

    /// How many transitions of former owners memory has refused.
    pub(crate) fn refused(&self) -> usize {
        self.reported_by_memory(super::redis_stale::REFUSED).len()
    }

    /// What memory says of writes that the store's servers have lost.
    pub(crate) fn lost(&self) -> Vec<String> {
        self.reported_by_memory("acknowledged writes of a session are lost")
    }

    /// The lines of memory's logs with these words.
    fn reported_by_memory(&self, words: &str) -> Vec<String> {
        let logs = self.cluster.members_of("memory").into_iter();
        let logs = logs.filter_map(|member| self.site.read(&member.log()));
        let lines = logs.flat_map(|log| log.lines().map(str::to_owned).collect::<Vec<_>>());
        lines.filter(|line| line.contains(words)).collect()
    }

    /// The ends of all logs.
    pub(crate) fn logs(&self) -> String {
        let logs = self.members.iter();
        let logs = logs.map(|it| format!("== {it}\n{}\n", self.site.tail(&it.log(), 12)));
        logs.collect()
    }

    /// Keeps what is needed to understand a failure, and says where.
    pub(crate) fn keep(&self, seed: u64) -> PathBuf {
        let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let target = target.join(format!("crash-{seed}"));
        let _ = std::fs::remove_dir_all(&target);
        std::fs::create_dir_all(&target).expect("a folder for what is kept");
        let logs = self.stores.logs().zip(0..);
        let logs = logs.map(|(log, number)| (log, format!("redis-{number}.log")));
        let site = (self.site.path().to_owned(), "site".to_owned());
        let state = (self.site.state().to_owned(), "state".to_owned());
        for (from, name) in logs.chain([site, state]) {
            let mut copy = Command::new("cp");
            let copied = copy.arg("-r").arg(from).arg(target.join(name)).status();
            assert!(copied.is_ok_and(|status| status.success()), "cp failed");
        }
        target
    }

    /// How many processes there are of which service.
    pub(crate) fn describe() -> String {
        let counts = SERVICES.into_iter().zip(COUNTS);
        let counts = counts.map(|(service, count)| format!("{service} x{count}"));
        counts.collect::<Vec<_>>().join(", ")
    }
}

impl Drop for World<'_> {
    fn drop(&mut self) {
        if let Some(noise) = &mut self.noise {
            let _ = noise.kill();
            let _ = noise.wait();
        }
    }
}
