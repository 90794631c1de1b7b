//! When the program is gone the page says so, and since when.

use crate::browser::Looks;
use crate::place::{Place, TOKEN_ASKED};

#[test]
fn a_lost_program_is_told() {
    let place = Place::start("rules:\n  - { name: per-ip, key: client.ip, limits: [2/1m] }\n");
    let browser = place.dashboard(Looks::WIDE);
    drop(place);
    browser.see(".link-state", "Offline since");
    browser.see(".banners", "No connection since");
    // What was known is still there.
    browser.see("main", "per-ip");
    browser.keep_picture("offline");
    browser.expect_peace(&[TOKEN_ASKED, "net::ERR_"]);
}
