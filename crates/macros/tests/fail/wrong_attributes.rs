#![allow(unused_variables)]

use sluicegate::{Limited, limit};

#[limit(rule = "orders", with("client_ip" = ip))]
fn slip(ip: std::net::IpAddr) -> Result<(), Limited> {
    Ok(())
}

#[limit(rule = "orders", with("client.ip" = ip))]
fn text(ip: &str) -> Result<(), Limited> {
    Ok(())
}

#[limit(rule = "orders", with(account = account))]
fn no_text(account: u32) -> Result<(), Limited> {
    Ok(())
}

#[limit(rule = "orders", with("param['id']" = id))]
fn param(id: u32) -> Result<(), Limited> {
    Ok(())
}

#[limit(rule = "orders", with("account" = a, "account" = b))]
fn twice(a: u32, b: u32) -> Result<(), Limited> {
    Ok(())
}

fn main() {}
