use super::*;
use crate::hub::Hub;
use crate::port::SessionKey;
use crate::redis::keys::Names;
use crate::redis::script::{Clock, Scripts};
use std::sync::Arc;

fn witness() -> Witness {
    let quarantine = Scripts::new(Clock::Server).quarantine;
    let hub = Arc::new(Hub::new());
    Witness::new(Names::new("cairn", "id"), "id".to_owned(), quarantine, hub)
}

fn at(version: u64, seq: u64) -> Mark {
    Mark {
        version,
        seq,
        event: Some(Fingerprint::of(seq, b"event")),
        ..Mark::default()
    }
}

/// The sessions of the namespace `n`, each with its partition.
fn member(session: &str) -> Member {
    let key = SessionKey::new("n", session);
    (keys::partition(&key), keys::member(&key))
}

fn known(witness: &Witness, session: &str) -> Option<Mark> {
    let (partition, member) = member(session);
    witness.marks(partition).get(&member).copied()
}

/// What `one` has to tell reaches `other`, over one server.
fn tell(one: &Witness, other: &Witness) -> usize {
    let told = take(one);
    told.iter().for_each(|told| other.heard(told.text()));
    told.len()
}

fn take(witness: &Witness) -> Vec<Told> {
    let told = witness.news(|_| 0, |_| true);
    told.into_values().flatten().collect()
}

#[test]
fn a_mark_is_told_as_it_is() {
    let mark = Mark {
        accepted_losses: 1,
        made_unix_ms: Some(1_700_000_000_000),
        ..at(3, 9)
    };
    let deleted = Mark {
        is_deleted: true,
        ..Mark::default()
    };
    let mut text = String::new();
    line(&mut text, "n/a b", &mark);
    line(&mut text, "n/c", &deleted);
    let told: Vec<_> = text.lines().map(parse).collect();
    assert_eq!(told, [Some(("n/a b", mark)), Some(("n/c", deleted))]);
    for odd in [
        "",
        "1 2 3",
        "1 2 3 0 0 0 0",
        "x 2 3 0 0 0 0 n/a",
        "-1 2 3 0 0 0 0 n/a",
    ] {
        assert_eq!(parse(odd), None, "{odd:?}");
    }
}

#[test]
fn what_is_heard_raises_what_is_known() {
    let witness = witness();
    let (partition, name) = member("a");
    witness.saw(partition, &name, at(3, 9));
    let heard = |mark: Mark| {
        let mut text = String::new();
        line(&mut text, &name, &mark);
        witness.heard(&text);
        known(&witness, "a").unwrap()
    };
    assert_eq!(heard(at(2, 7)), at(3, 9));
    assert_eq!(heard(at(4, 12)), at(4, 12));
    // What others have written past a loss is not what was known.
    let other = Mark {
        event: Some(Fingerprint::of(12, b"other")),
        ..at(4, 12)
    };
    assert_eq!(heard(other), at(4, 12));
}

#[test]
fn what_has_the_name_of_an_older_session_is_another() {
    let made = |made: i64, mark: Mark| Mark {
        made_unix_ms: Some(made),
        ..mark
    };
    let deleted = Mark {
        is_deleted: true,
        ..Mark::default()
    };
    for (before, heard, want) in [
        (made(5, at(3, 9)), made(7, at(0, 1)), made(7, at(0, 1))),
        (made(7, at(0, 1)), made(5, at(3, 9)), made(7, at(0, 1))),
        (deleted, made(7, at(0, 1)), made(7, at(0, 1))),
        (made(5, deleted), made(7, at(0, 1)), made(7, at(0, 1))),
        // Of which it is, nobody knows.
        (made(7, at(2, 4)), at(1, 3), made(7, at(2, 4))),
        (at(2, 4), made(7, at(0, 1)), made(7, at(2, 4))),
    ] {
        let witness = witness();
        let (partition, name) = member("a");
        witness.saw(partition, &name, before);
        let mut text = String::new();
        line(&mut text, &name, &heard);
        witness.heard(&text);
        assert_eq!(known(&witness, "a"), Some(want), "{before:?} {heard:?}");
    }
}

#[test]
fn others_hear_what_is_new_and_only_once() {
    let (one, other) = (witness(), witness());
    let (partition, name) = member("a");
    one.saw(partition, &name, at(1, 2));
    assert_eq!(tell(&one, &other), 0, "nobody tells yet");
    one.begin_telling();
    one.saw(partition, &name, at(2, 3));
    one.saw(partition, &name, at(3, 9));
    assert_eq!(tell(&one, &other), 1);
    assert_eq!(known(&other, "a"), Some(at(3, 9)));
    assert_eq!(tell(&one, &other), 0);
}

#[test]
fn what_could_not_be_told_is_told_later_as_it_is_then() {
    let (one, other) = (witness(), witness());
    one.begin_telling();
    let (partition, name) = member("a");
    one.saw(partition, &name, at(1, 2));
    let told = take(&one);
    one.saw(partition, &name, at(2, 5));
    told.into_iter().for_each(|told| one.not_told(told));
    assert_eq!(tell(&one, &other), 1);
    assert_eq!(known(&other, "a"), Some(at(2, 5)));
}

#[test]
fn who_begins_to_listen_hears_all_that_is_known_and_what_is_lost_nobody() {
    let (one, late) = (witness(), witness());
    one.begin_telling();
    let names: Vec<_> = (0..3000).map(|number| format!("s{number}")).collect();
    for name in &names {
        let (partition, name) = member(name);
        one.saw(partition, &name, at(1, 2));
    }
    tell(&one, &witness());
    let (lost, name) = member("s7");
    one.forget(lost, &name);
    let (away, _) = member("s8");
    one.tell_all(|partition| partition != away);
    assert_eq!(tell(&one, &late), 3);
    for name in &names {
        let is_told = name != "s7" && member(name).0 != away;
        assert_eq!(known(&late, name), is_told.then_some(at(1, 2)), "{name}");
    }
}

#[test]
fn a_server_that_is_being_told_keeps_no_other_waiting() {
    let one = witness();
    one.begin_telling();
    for number in 0..100 {
        let (partition, name) = member(&number.to_string());
        one.saw(partition, &name, at(1, 2));
    }
    let place = |partition: u16| usize::from(partition % 2);
    let told = one.news(place, |place| place == 1);
    assert_eq!(told.keys().collect::<Vec<_>>(), [&1]);
    assert!(told[&1].iter().all(|told| told.partition() % 2 == 1));
    let rest = one.news(place, |_| true);
    assert_eq!(rest.keys().collect::<Vec<_>>(), [&0]);
    let all = told[&1].iter().chain(&rest[&0]);
    assert_eq!(
        all.map(|told| told.text().lines().count()).sum::<usize>(),
        100
    );
}
