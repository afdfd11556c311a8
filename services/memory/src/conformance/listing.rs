//! Listings: filters, orders, pages.

use super::support::*;
use crate::port::{
    Commit, Create, Header, LeaseChange, Level, ListFilter, ListOrder, ListQuery, MOST_LOOKED_AT,
    MemoryWrite, PageToken, PendingKind, SessionStatus,
};
use futures::future::join_all;

/// So long that the order of last changes sees it.
const APART: u64 = 101;

fn open(kind: u8, since_unix_ms: i64) -> PendingKind {
    PendingKind {
        kind,
        since_unix_ms,
        count: 1,
    }
}

fn by_change(max: usize) -> ListQuery {
    ListQuery {
        order: ListOrder::Changed,
        ..ListQuery::newest(max)
    }
}

fn only(filter: ListFilter) -> ListQuery {
    ListQuery {
        filter,
        ..ListQuery::newest(100)
    }
}

impl Subject {
    /// The ids of one page, and where the next one begins.
    async fn ids(&self, query: &ListQuery) -> (Vec<String>, Option<PageToken>) {
        let page = self.store.list(SPACE, query).await.unwrap();
        let ids = page.sessions.into_iter().map(|entry| entry.session);
        (ids.collect(), page.next)
    }

    async fn listed(&self, query: &ListQuery) -> String {
        self.ids(query).await.0.join(" ")
    }

    /// The ids of all pages.
    async fn all_ids(&self, query: &ListQuery) -> Vec<String> {
        let (mut query, mut all) = (query.clone(), Vec::new());
        loop {
            let (ids, next) = self.ids(&query).await;
            assert!(ids.len() <= query.max);
            all.extend(ids);
            query.from = next;
            if query.from.is_none() {
                return all;
            }
        }
    }

    async fn made(&self, id: &str, header: Header) {
        let create = Create {
            header,
            ..creation(&key(id))
        };
        self.store.create(create).await.unwrap();
    }

    async fn titled(&self, id: &str, title: &str) {
        let title = title.to_owned();
        let header = Header {
            title,
            ..Header::default()
        };
        self.made(id, header).await;
    }
}

pub async fn a_listing_has_what_the_owner_noted(subject: &Subject) {
    let header = |number: u64| Header {
        status: SessionStatus::Waiting,
        agent: format!("agent {number}"),
        tokens: 1000 + number,
        cost_nano_usd: (1 << 40) + number,
        pending: vec![open(1, 5), open(3, 1_800_000_000_000)],
        title: "what it is about".to_owned(),
        handled_through: 0,
        needs: Level::FIRST,
        waits_for: vec!["gpu".to_owned(), format!("web_search>={number}")],
    };
    let create = Create {
        header: header(1),
        ..creation_by(&key("a"), "one")
    };
    let lease = subject.store.create(create).await.unwrap().lease.unwrap();
    let check = async |want: Header| {
        let page = subject.store.list(SPACE, &ListQuery::newest(1)).await;
        let entry = page.unwrap().sessions.remove(0);
        assert_eq!(
            (entry.status, &entry.title, &entry.agent),
            (want.status, &want.title, &want.agent)
        );
        assert_eq!(
            (entry.tokens, entry.cost_nano_usd, &entry.pending),
            (want.tokens, want.cost_nano_usd, &want.pending)
        );
        let page = subject.store.read(&key("a"), 0, 1).await.unwrap();
        assert_eq!(page.header, want);
    };
    check(header(1)).await;
    let commit = |version, header| Commit {
        key: key("a"),
        owner: "one".to_owned(),
        epoch: lease.epoch,
        version,
        operation_id: format!("operation-{version}"),
        seen_seq: 2,
        events: Vec::new(),
        memory_writes: Vec::new(),
        header,
        lease: LeaseChange::Renew,
        lease_ms: LEASE,
        checkpoint: None,
        from_reserve: false,
        no_progress: false,
    };
    subject.store.commit(commit(0, header(2))).await.unwrap();
    check(header(2)).await;
    subject
        .store
        .commit(commit(1, Header::default()))
        .await
        .unwrap();
    check(Header::default()).await;
}

/// Filters, and which of the sessions of the case pass them.
fn filters() -> Vec<(ListFilter, &'static str)> {
    let of = |change: fn(&mut ListFilter)| {
        let mut filter = ListFilter::default();
        change(&mut filter);
        filter
    };
    let (idle, running, waiting) = (
        |filter: &mut ListFilter| filter.statuses.push(SessionStatus::Idle),
        |filter: &mut ListFilter| filter.statuses.push(SessionStatus::Running),
        |filter: &mut ListFilter| filter.statuses.push(SessionStatus::Waiting),
    );
    let mut not_running = of(idle);
    waiting(&mut not_running);
    not_running.quarantined = true;
    let mut waiting_for_two = of(waiting);
    waiting_for_two.pending = vec![1, 2];
    vec![
        (ListFilter::default(), "e d c b a"),
        (of(running), "e"),
        (not_running, "d c b a"),
        (of(|filter| filter.quarantined = true), "b"),
        (of(|filter| filter.has_pending = true), "e d c"),
        (of(|filter| filter.pending = vec![3]), "e d"),
        (waiting_for_two, "d c"),
        (of(|filter| filter.agent = "writer".to_owned()), "c b"),
        (of(|filter| filter.pending = vec![9]), ""),
    ]
}

pub async fn a_listing_goes_by_its_filter(subject: &Subject) {
    use SessionStatus as S;
    for (id, status, agent, pending) in [
        ("a", S::Idle, "", vec![]),
        ("b", S::Running, "writer", vec![]),
        ("c", S::Waiting, "writer", vec![open(1, 7)]),
        ("d", S::Waiting, "", vec![open(2, 7), open(3, 7)]),
        ("e", S::Running, "reader", vec![open(3, 7)]),
    ] {
        let header = Header {
            status,
            agent: agent.to_owned(),
            pending,
            ..Header::default()
        };
        subject.made(id, header).await;
    }
    subject.store.quarantine(&key("b"), None).await.unwrap();
    for (filter, want) in filters() {
        let mut query = only(filter);
        assert_eq!(subject.listed(&query).await, want, "{query:?}");
        query.is_ascending = true;
        let mut backwards: Vec<_> = want.split(' ').collect();
        backwards.reverse();
        assert_eq!(subject.listed(&query).await, backwards.join(" "));
        query.order = ListOrder::Changed;
        let mut found = subject.all_ids(&query).await;
        found.sort();
        assert_eq!(found.join(" "), backwards.join(" "), "{query:?}");
    }
}

pub async fn a_listing_goes_by_a_prefix(subject: &Subject) {
    for (id, title) in [
        ("red", "what there is"),
        ("s-1", "Redis and the others"),
        ("s-2", "über Redis"),
        ("s-3", "REDUCE"),
    ] {
        subject.titled(id, title).await;
    }
    for (prefix, want) in [
        ("", "s-3 s-2 s-1 red"),
        ("red", "s-3 s-1 red"),
        ("Red", "s-3 s-1"),
        ("redi", "s-1"),
        ("s-", "s-3 s-2 s-1"),
        ("S-", ""),
        ("Über", "s-2"),
        ("what there is no", ""),
    ] {
        let query = only(ListFilter {
            prefix: prefix.to_owned(),
            ..ListFilter::default()
        });
        assert_eq!(subject.listed(&query).await, want, "{prefix}");
    }
}

pub async fn the_latest_is_what_changed_last(subject: &Subject) {
    let mut owner = subject.owned("a", "one").await;
    subject.pass(APART).await;
    for id in ["b", "c"] {
        subject.parked(id).await;
        subject.pass(APART).await;
    }
    let latest = async || subject.listed(&by_change(1)).await;
    assert_eq!(latest().await, "c");
    subject.append(&key("b"), "command").await;
    assert_eq!(latest().await, "b");
    subject.pass(APART).await;
    owner.commit("x").await;
    assert_eq!(latest().await, "a");
    subject.pass(APART).await;
    let set = MemoryWrite::set("k", "v");
    let by = client(&key("c"));
    subject
        .store
        .write_memory(&key("c"), set, &by)
        .await
        .unwrap();
    assert_eq!(subject.listed(&by_change(10)).await, "c a b");
    let oldest = ListQuery {
        is_ascending: true,
        ..by_change(2)
    };
    assert_eq!(subject.listed(&oldest).await, "b a");
    subject.store.delete(&key("c")).await.unwrap();
    assert_eq!(latest().await, "a");
}

pub async fn a_listing_goes_by_the_time_of_the_last_change(subject: &Subject) {
    for id in ["a", "b", "c"] {
        subject.parked(id).await;
        subject.pass(APART).await;
    }
    let page = subject.store.list(SPACE, &ListQuery::newest(3)).await;
    let entries = page.unwrap().sessions.into_iter().rev();
    let times: Vec<_> = entries.map(|entry| entry.updated_unix_ms).collect();
    for order in [ListOrder::Created, ListOrder::Changed] {
        for (after, before, want) in [
            (Some(times[0]), None, "c b"),
            (Some(times[0] - 1), None, "c b a"),
            (None, Some(times[2]), "b a"),
            (Some(times[0]), Some(times[2]), "b"),
            (Some(times[2]), None, ""),
            (None, Some(times[0]), ""),
        ] {
            let mut query = only(ListFilter {
                changed_after: after,
                changed_before: before,
                ..ListFilter::default()
            });
            query.order = order;
            assert_eq!(subject.listed(&query).await, want, "{query:?}");
        }
    }
}

pub async fn a_filtered_listing_comes_in_pages(subject: &Subject) {
    for number in 0..20 {
        let title = ["odd", "even"][usize::from(number % 2 == 0)];
        subject.titled(&format!("s{number:02}"), title).await;
        subject.pass(if number % 5 == 0 { APART } else { 1 }).await;
    }
    let even: Vec<_> = (0..10).map(|half| format!("s{:02}", 2 * half)).collect();
    for order in [ListOrder::Created, ListOrder::Changed] {
        for is_ascending in [false, true] {
            for max in [1, 3, 10, 11] {
                let query = ListQuery {
                    filter: ListFilter {
                        prefix: "even".to_owned(),
                        ..ListFilter::default()
                    },
                    order,
                    is_ascending,
                    from: None,
                    max,
                };
                let mut found = subject.all_ids(&query).await;
                if !is_ascending {
                    found.reverse();
                }
                assert_eq!(found, even, "{query:?}");
            }
        }
    }
}

pub async fn pages_stay_valid_while_sessions_change(subject: &Subject) {
    for number in 0..9 {
        subject.titled(&format!("s{number}"), "before").await;
        subject.pass(APART).await;
    }
    for order in [ListOrder::Created, ListOrder::Changed] {
        let mut query = ListQuery {
            order,
            ..ListQuery::newest(3)
        };
        let (first, next) = subject.ids(&query).await;
        assert_eq!(first.len(), 3, "{order:?}");
        query.from = next;
        // The session at the end of the page goes, one before it changes, and a new one comes.
        subject.store.delete(&key(&first[2])).await.unwrap();
        subject.append(&key(&first[0]), &format!("{order:?}")).await;
        subject.parked(format!("new-{order:?}")).await;
        let rest = subject.all_ids(&query).await;
        let mut all = [&first[..], &rest[..]].concat();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count, "none comes twice: {order:?} {all:?}");
        let there = subject.all_ids(&ListQuery::newest(100)).await;
        let missed = there.iter().filter(|id| !all.contains(id));
        let missed: Vec<_> = missed.collect();
        assert_eq!(missed, [&format!("new-{order:?}")]);
    }
}

pub async fn who_asks_a_person_is_listed_until_it_is_answered(subject: &Subject) {
    let asking = only(ListFilter {
        has_pending: true,
        ..ListFilter::default()
    });
    let mut owner = subject.owned("a", "one").await;
    for id in ["b", "c"] {
        let header = Header {
            pending: vec![open(4, 7)],
            ..Header::default()
        };
        subject.made(id, header).await;
    }
    assert_eq!(subject.listed(&asking).await, "c b");
    let mut commit = owner.next("x");
    commit.header.pending = vec![open(1, 8)];
    owner.make(commit).await.unwrap();
    assert_eq!(subject.listed(&asking).await, "c b a");
    subject.append(&owner.key, "answer").await;
    assert_eq!(subject.listed(&asking).await, "c b a");
    subject.store.delete(&key("c")).await.unwrap();
    assert_eq!(subject.listed(&asking).await, "b a");
    owner.commit("y").await;
    assert_eq!(subject.listed(&asking).await, "b");
}

pub async fn a_page_looks_at_a_bounded_number_of_sessions(subject: &Subject) {
    subject.titled("wanted", "Needle").await;
    subject.pass(APART).await;
    let others: Vec<_> = (0..MOST_LOOKED_AT + 10).collect();
    for some in others.chunks(256) {
        let made = some.iter().map(async |number: &usize| {
            subject.titled(&format!("s{number}"), "Hay").await;
        });
        join_all(made).await;
    }
    for order in [ListOrder::Created, ListOrder::Changed] {
        let mut query = only(ListFilter {
            prefix: "needle".to_owned(),
            ..ListFilter::default()
        });
        query.order = order;
        let (ids, next) = subject.ids(&query).await;
        assert_eq!(ids, [""; 0]);
        assert!(next.is_some(), "there is more to be looked at");
        query.from = next;
        assert_eq!(subject.ids(&query).await, (vec!["wanted".to_owned()], None));
    }
}
