//! The store on real servers of Redis.
//!
//! All tests that need `redis-server` stand here, so that `-E 'not test(redis)'` leaves them out.

mod blobs;
mod checkpoints;
mod clock;
mod cluster;
mod conformance;
mod crash;
mod damage;
mod databases;
mod documents;
mod durability;
mod entries;
mod failover;
mod identity;
mod lost;
mod lost_writes;
mod opening;
mod outages;
mod processes;
mod reads;
mod refusals;
mod rights;
mod sabotage;
mod subscriptions;
mod tls;
mod unchanged;
