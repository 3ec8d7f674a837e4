//! Address filter: which addresses belong to the public internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ranges of IPv4 that are not public, as address and length of prefix.
const RESERVED_V4: [([u8; 4], u32); 15] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

/// Ranges inside `2000::/3` that are not public: assignments of protocols (Teredo among them),
/// documentation, 6to4, documentation again.
const RESERVED_V6: [([u16; 8], u32); 4] = [
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),
];

/// Prefixes of 96 bits behind which stands an IPv4 address: mapped, translated, NAT64, compatible.
const EMBEDDING: [[u16; 6]; 4] = [
    [0, 0, 0, 0, 0, 0xffff],
    [0, 0, 0, 0, 0xffff, 0],
    [0x64, 0xff9b, 0, 0, 0, 0],
    [0, 0, 0, 0, 0, 0],
];

/// Where clouds tell a machine its credentials, beside the link-local ranges.
const METADATA_V4: [[u8; 4]; 3] = [[100, 100, 100, 200], [168, 63, 129, 16], [192, 0, 0, 192]];
const METADATA_V6: [[u16; 8]; 4] = [
    [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254],
    [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23],
    [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254],
    [0xfe80, 0, 0, 0, 0, 0, 0xa9fe, 0xa9fe],
];

/// Whether an address is of the public internet. What is not known to be is not.
pub(super) fn is_public(address: IpAddr) -> bool {
    match plain(address) {
        IpAddr::V4(v4) => {
            !is_metadata(v4.into()) && !RESERVED_V4.iter().any(|range| in_v4(v4, range))
        }
        IpAddr::V6(v6) => {
            let unicast = ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);
            in_v6(v6, &unicast) && !RESERVED_V6.iter().any(|range| in_v6(v6, range))
        }
    }
}

/// Whether it is where a cloud tells credentials: nobody may be let there.
pub(super) fn is_metadata(address: IpAddr) -> bool {
    match plain(address) {
        IpAddr::V4(v4) => v4.is_link_local() || METADATA_V4.contains(&v4.octets()),
        IpAddr::V6(v6) => METADATA_V6.contains(&v6.segments()),
    }
}

/// The IPv4 address inside an IPv6 one, if that only carries it.
fn plain(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let [prefix @ .., high, low] = v6.segments();
    // The loopback and the unspecified address are none.
    if EMBEDDING.contains(&prefix) && u128::from(v6) > 1 {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        return Ipv4Addr::new(a, b, c, d).into();
    }
    address
}

fn in_v4(address: Ipv4Addr, (range, prefix): &([u8; 4], u32)) -> bool {
    (u32::from(address) ^ u32::from(Ipv4Addr::from(*range))) >> (32 - prefix) == 0
}

fn in_v6(address: Ipv6Addr, (range, prefix): &([u16; 8], u32)) -> bool {
    (u128::from(address) ^ u128::from(Ipv6Addr::from(*range))) >> (128 - prefix) == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// TO-71: the ranges as they are written down, with the first and last address of each.
    const BLOCKED: &[(&str, &str)] = &[
        ("0.0.0.0", "0.255.255.255"),
        ("10.0.0.0", "10.255.255.255"),
        ("100.64.0.0", "100.127.255.255"),
        ("127.0.0.0", "127.255.255.255"),
        ("169.254.0.0", "169.254.255.255"),
        ("172.16.0.0", "172.31.255.255"),
        ("192.0.0.0", "192.0.0.255"),
        ("192.0.2.0", "192.0.2.255"),
        ("192.88.99.0", "192.88.99.255"),
        ("192.168.0.0", "192.168.255.255"),
        ("198.18.0.0", "198.19.255.255"),
        ("198.51.100.0", "198.51.100.255"),
        ("203.0.113.0", "203.0.113.255"),
        ("224.0.0.0", "239.255.255.255"),
        ("240.0.0.0", "255.255.255.255"),
        ("::", "::1"),
        ("100::", "100::ffff:ffff:ffff:ffff"),
        ("2001::", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("fe80::", "febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("fec0::", "feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        ("ff00::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ];

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// An address of one of the ranges, at either end or anywhere between.
    fn blocked() -> impl Strategy<Value = IpAddr> {
        (0..BLOCKED.len(), any::<u128>(), 0..3).prop_map(|(range, at, end)| {
            let (first, last) = BLOCKED[range];
            match (address(first), address(last), end) {
                (first, _, 0) => first,
                (_, last, 1) => last,
                (IpAddr::V4(first), IpAddr::V4(last), _) => {
                    let (first, last) = (u32::from(first), u32::from(last));
                    let size = u128::from(last - first) + 1;
                    Ipv4Addr::from(first + (at % size) as u32).into()
                }
                (IpAddr::V6(first), IpAddr::V6(last), _) => {
                    let (first, last) = (u128::from(first), u128::from(last));
                    Ipv6Addr::from(first + at % (last - first + 1)).into()
                }
                _ => unreachable!("both ends are of one kind"),
            }
        })
    }

    proptest! {
        /// TO-71, SC-11
        #[test]
        fn no_address_of_a_blocked_range_is_public(address in blocked()) {
            prop_assert!(!is_public(address), "{address}");
        }

        /// TO-71: an IPv6 address that carries an IPv4 one is judged by that.
        #[test]
        fn an_address_inside_another_is_judged_by_itself(inner in any::<u32>()) {
            let inner = Ipv4Addr::from(inner);
            for prefix in ["::ffff:", "64:ff9b::", "::ffff:0:", "::"] {
                let outer = address(&format!("{prefix}{inner}"));
                // Small numbers behind nothing are loopback and unspecified.
                prop_assert_eq!(is_public(outer), is_public(inner.into()), "{}", outer);
                prop_assert_eq!(is_metadata(outer), is_metadata(inner.into()), "{}", outer);
            }
            let [a, b, c, d] = inner.octets().map(u16::from);
            let carried = [a << 8 | b, c << 8 | d];
            let sixtofour = Ipv6Addr::new(0x2002, carried[0], carried[1], 0, 0, 0, 0, 1);
            let teredo = Ipv6Addr::new(0x2001, 0, carried[0], carried[1], 0, 0, !carried[0], !carried[1]);
            prop_assert!(!is_public(sixtofour.into()) && !is_public(teredo.into()));
        }
    }

    #[test]
    fn the_public_internet_is_open() {
        for text in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "198.17.255.255",
            "198.20.0.0",
            "223.255.255.255",
            "2606:4700::1111",
            "2001:4860:4860::8888",
            "2a00:1450::1",
            "64:ff9b::8.8.8.8",
        ] {
            assert!(is_public(address(text)), "{text}");
        }
        for text in ["64:ff9b:1::1", "5f00::1", "3fff::1", "4000::1", "2001:10::1", "168.63.129.16"]
        {
            assert!(!is_public(address(text)), "{text}");
        }
    }

    /// SC-62
    #[test]
    fn metadata_is_known_in_every_form() {
        for text in [
            "169.254.169.254",
            "169.254.170.2",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fd00:ec2::254",
            "fd20:ce::254",
        ] {
            assert!(is_metadata(address(text)) && !is_public(address(text)), "{text}");
        }
        assert!(!is_metadata(address("127.0.0.1")) && !is_metadata(address("10.0.0.1")));
    }
}
