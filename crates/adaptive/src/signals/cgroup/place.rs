//! Where the process's control groups are, from `/proc/self/cgroup` and `/proc/self/mountinfo`.
//!
//! The first file names the group in each hierarchy, the second says where a hierarchy can be seen and which part of
//! it. In a container with a namespace of its own the group is `/` and the mount shows it; without one, the group is
//! the path on the host, and the mount shows that path or all of it.

use std::path::{Component, Path, PathBuf};

/// The two kinds of hierarchies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::signals) enum Version {
    /// One hierarchy per controller or pair of them.
    V1,
    /// One hierarchy for all.
    V2,
}

/// Where a controller's group is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::signals) struct Place {
    /// The kind of its hierarchy.
    pub(in crate::signals) version: Version,
    /// Where the hierarchy is mounted.
    pub(in crate::signals) mount: PathBuf,
    /// The group, below the mount.
    pub(in crate::signals) below: PathBuf,
}

impl Place {
    /// The group's folder and those above it, up to the mount.
    pub(in crate::signals) fn folders(&self) -> Vec<PathBuf> {
        self.below.ancestors().map(|below| self.mount.join(below)).collect()
    }
}

/// The place of a controller's group: in version 1 if the controller has a hierarchy of its own, else in version 2.
pub(in crate::signals) fn of_controller(controller: &str, groups: &str, mounts: &str) -> Option<Place> {
    find(Version::V1, controller, groups, mounts).or_else(|| unified(groups, mounts))
}

/// The place of the process's group in version 2.
pub(in crate::signals) fn unified(groups: &str, mounts: &str) -> Option<Place> {
    find(Version::V2, "", groups, mounts)
}

fn find(version: Version, controller: &str, groups: &str, mounts: &str) -> Option<Place> {
    let group = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        controllers.split(',').any(|named| named == controller).then_some(path)
    })?;
    let (root, mount) = mounts.lines().find_map(|line| mount_of(version, controller, line))?;
    Some(Place { version, mount: PathBuf::from(mount), below: below(group, &root) })
}

/// Root and mount point, if a line of `mountinfo` is the hierarchy that is looked for:
/// `31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw`.
fn mount_of(version: Version, controller: &str, line: &str) -> Option<(String, String)> {
    let (mount, filesystem) = line.split_once(" - ")?;
    let mut filesystem = filesystem.split(' ');
    let (kind, _, options) = (filesystem.next()?, filesystem.next()?, filesystem.next()?);
    let is_it = match version {
        Version::V1 => kind == "cgroup" && options.split(',').any(|option| option == controller),
        Version::V2 => kind == "cgroup2",
    };
    let mut mount = mount.split(' ').skip(3);
    is_it.then(|| Some((unescape(mount.next()?), unescape(mount.next()?))))?
}

/// The group's path below what a mount shows. Where the mount shows another part of the hierarchy, what it shows is
/// the best there is.
fn below(group: &str, root: &str) -> PathBuf {
    let below = Path::new(group).strip_prefix(root).unwrap_or(Path::new(""));
    // A group outside of the namespace is written with `..`, and leads out of the mount.
    let normal = |part: &Component<'_>| matches!(part, Component::Normal(_));
    if below.components().all(|part| normal(&part)) { below.to_owned() } else { PathBuf::new() }
}

/// Blanks in paths are written as `\040`.
fn unescape(path: &str) -> String {
    let mut rest = path;
    let mut plain = String::with_capacity(path.len());
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 4).and_then(|code| u8::from_str_radix(code, 8).ok()).filter(u8::is_ascii);
        plain.push(code.map_or('\\', char::from));
        rest = &rest[at + if code.is_some() { 4 } else { 1 }..];
    }
    plain + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    const V2: &str = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

    #[test]
    fn version_2() {
        let place = of_controller("cpu", "0::/system.slice/shop.service\n", V2).unwrap();
        assert_eq!(place.version, Version::V2);
        let folders: Vec<PathBuf> =
            ["/sys/fs/cgroup/system.slice/shop.service", "/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/"]
                .map(PathBuf::from)
                .into();
        assert_eq!(place.folders(), folders);
        // A group outside of the namespace, and none at all.
        assert_eq!(of_controller("cpu", "0::/../other\n", V2).unwrap().below, PathBuf::new());
        assert_eq!(of_controller("cpu", "", V2), None);
        assert_eq!(of_controller("cpu", "0::/\n", ""), None);
    }

    #[test]
    fn version_1_where_a_controller_has_its_own() {
        let groups = "4:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc\n0::/system.slice/docker.service\n";
        let mounts = "40 31 0:30 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n\
                      41 31 0:31 / /sys/fs/cgroup/mem\\040ory ro master:3 - cgroup cgroup rw,memory\n\
                      42 31 0:32 / /sys/fs/cgroup/unified rw - cgroup2 cgroup rw\n";
        let cpu = of_controller("cpuacct", groups, mounts).unwrap();
        assert_eq!((cpu.version, cpu.below), (Version::V1, PathBuf::new()));
        let memory = of_controller("memory", groups, mounts).unwrap();
        assert_eq!(memory.folders()[0], PathBuf::from("/sys/fs/cgroup/mem ory/docker/abc"));
        let cpuset = of_controller("cpuset", groups, mounts).unwrap();
        assert_eq!(cpuset.folders()[0], PathBuf::from("/sys/fs/cgroup/unified/system.slice/docker.service"));
    }

    #[test]
    fn escapes_that_are_none_stay() {
        for (written, meant) in [
            ("/a\\040b", "/a b"),
            ("\\", "\\"),
            ("\\9x", "\\9x"),
            ("\\134040", "\\040"),
            ("\\377", "\\377"),
            ("\\0é", "\\0é"),
        ] {
            assert_eq!(unescape(written), meant);
        }
    }
}
