use sluicegate_config::settings::{Destination, Route};

use super::*;

fn route(host: &str, methods: &[&str], path: &str) -> Route {
    Route {
        host: (!host.is_empty()).then(|| host.to_owned()),
        methods: methods.iter().map(|method| (*method).to_owned()).collect(),
        path: path.to_owned(),
        to: Destination::Upstream { name: "shop".to_owned(), strip: None },
    }
}

#[test]
fn the_most_exact_host_then_the_most_exact_path_wins() {
    let routes = [
        route("", &[], "/{*rest}"),
        route("", &[], "/api/{*rest}"),
        route("", &[], "/api/orders/{id}"),
        route("*.example.com", &[], "/{*rest}"),
        route("*.shop.example.com", &[], "/{*rest}"),
        route("Shop.example.com", &[], "/only"),
        route("", &["POST", "PUT"], "/api/orders"),
        route("", &["GET"], "/solo"),
    ];
    let router = Router::new(&routes).unwrap();
    for (host, method, path, expected) in [
        ("", "GET", "/", RouteMatch::Route(0)),
        ("", "GET", "/apis", RouteMatch::Route(0)),
        ("", "GET", "/api", RouteMatch::Route(1)),
        ("", "GET", "/api/", RouteMatch::Route(1)),
        ("", "GET", "/api/x/y", RouteMatch::Route(1)),
        ("", "GET", "/api/orders/7", RouteMatch::Route(2)),
        ("", "POST", "/api/orders/7", RouteMatch::Route(2)),
        ("", "GET", "/api/orders", RouteMatch::Route(1)),
        ("", "POST", "/api/orders", RouteMatch::Route(6)),
        ("", "PUT", "/api/orders", RouteMatch::Route(6)),
        ("a.example.com", "GET", "/api/", RouteMatch::Route(3)),
        ("a.shop.example.com", "GET", "/api/", RouteMatch::Route(4)),
        ("example.com", "GET", "/x", RouteMatch::Route(0)),
        ("badexample.com", "GET", "/x", RouteMatch::Route(0)),
        ("shop.example.com", "GET", "/only", RouteMatch::Route(5)),
        ("shop.example.com", "GET", "/else", RouteMatch::Route(3)),
        ("", "GET", "/solo", RouteMatch::Route(7)),
        ("", "DELETE", "/solo", RouteMatch::Route(0)),
    ] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        assert_eq!(router.find(host, &method, path), expected, "{host} {method} {path}");
    }
}

#[test]
fn a_method_without_a_route_gets_the_allowed_methods() {
    let router = Router::new(&[route("", &["POST", "PUT"], "/orders"), route("", &["GET"], "/orders")]).unwrap();
    assert_eq!(router.find("", &Method::DELETE, "/orders"), RouteMatch::MethodNotAllowed);
    assert_eq!(router.methods("", "/orders"), "GET, POST, PUT");
    assert_eq!(router.find("", &Method::GET, "/other"), RouteMatch::NotFound);
    assert_eq!(router.find("", &Method::DELETE, "/other"), RouteMatch::NotFound);
}

#[test]
fn a_route_for_one_method_comes_before_one_for_all() {
    let router = Router::new(&[route("", &[], "/x"), route("", &["GET"], "/x")]).unwrap();
    assert_eq!(router.find("", &Method::GET, "/x"), RouteMatch::Route(1));
    assert_eq!(router.find("", &Method::PUT, "/x"), RouteMatch::Route(0));
}

#[test]
fn parameters_of_different_names_and_catch_alls_coexist() {
    let routes = [
        route("", &[], "/a/{*rest}"),
        route("", &[], "/a/{id}"),
        route("", &[], "/a/{name}/x"),
        route("", &[], "/a/b/y"),
        route("", &[], "/a/{id}/"),
    ];
    let router = Router::new(&routes).unwrap();
    for (path, expected) in [
        ("/a", Some(0)),
        ("/a/", Some(0)),
        ("/a/b", Some(1)),
        ("/a/b/x", Some(2)),
        ("/a/b/y", Some(3)),
        ("/a/c/y", Some(0)),
        ("/a/c/", Some(4)),
        ("/a//", Some(0)),
        ("/a/b/y/z", Some(0)),
    ] {
        let expected = expected.map_or(RouteMatch::NotFound, RouteMatch::Route);
        assert_eq!(router.find("", &Method::GET, path), expected, "{path}");
    }
}

#[test]
fn without_routes_nothing_is_found() {
    assert_eq!(Router::new(&[]).unwrap().find("x", &Method::GET, "/"), RouteMatch::NotFound);
}
