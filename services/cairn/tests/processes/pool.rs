//! The pool with real processes: what models are told of it, capabilities that are busy, missing or taken away, and
//! grants. Most tests have one process over SQLite. `redis_shortage` and `redis_kills` have several of each service.
//!
//! The times of the pool are shorter than usual here; see `CAIRN_POOL_TIMES` in `fail.rs`.

mod contexts;
mod five;
mod grants;
mod planner;
mod redis_kills;
mod redis_shortage;
mod shortage;

use crate::support::place::Place;
use crate::support::pool::{Api, Desk, TIMES};
use cairn_testkit::TestStore;

/// The log of a server that is kept.
const LOG: &str = "listen.log";

/// A place in a file with these settings, and a model that the test plays.
fn place(desk: &Desk, settings: &str) -> Place {
    let place = Place::over(TestStore::file());
    desk.add_to(&place.site);
    place.site.append("cairn.toml", settings);
    place
}

/// Serves a place with the short times of the pool, until it is stopped or killed.
fn serve(place: &mut Place, variables: &[(&str, &str)]) -> Api {
    let variables = [&[TIMES][..], variables].concat();
    assert!(place.keep_serving_with(&variables), "it does not serve");
    Api::at(place.address())
}
