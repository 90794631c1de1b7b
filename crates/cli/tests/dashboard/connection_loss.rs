//! The page shows a lost connection, and since when.

use super::browser::Viewport;
use super::fixture::{Dashboard, TOKEN_REQUIRED_ERROR};

#[test]
fn a_lost_connection_is_shown() {
    let dashboard = Dashboard::start("rules:\n  - { name: per-ip, key: client.ip, limits: [2/1m] }\n");
    let browser = dashboard.open_dashboard(Viewport::WIDE);
    drop(dashboard);
    browser.wait_for_text(".link-state", "Offline since");
    browser.wait_for_text(".banners", "No connection since");
    // The last data stays visible.
    browser.wait_for_text("main", "per-ip");
    browser.save_screenshot("offline");
    browser.assert_clean(&[TOKEN_REQUIRED_ERROR, "net::ERR_"]);
}
