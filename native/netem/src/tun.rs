//! Network namespaces and tun interfaces (Documentation/networking/tuntap.rst, netdevice(7)).

use std::fs::{File, OpenOptions};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

const MTU: i32 = 1500;
/// The packets that the kernel queues while this program handles the other direction.
const WAITING_PACKETS: i32 = 20_000;
const PREFIX: u32 = 30;

/// One end of the link: the path of the namespace, and the name and address of the interface.
#[derive(Clone, Debug)]
pub struct Place {
    pub namespace: String,
    pub interface: String,
    pub address: Ipv4Addr,
}

impl Place {
    /// Parse `NAMESPACE,INTERFACE,ADDRESS`.
    pub fn parse(text: &str) -> Result<Place, String> {
        let parts: Vec<&str> = text.split(',').collect();
        let [namespace, interface, address] = parts[..] else {
            return Err(format!("'{text}' is not NAMESPACE,INTERFACE,ADDRESS"));
        };
        if interface.is_empty()
            || interface.len() > 15
            || !interface.bytes().all(|b| b.is_ascii_alphanumeric())
        {
            return Err(format!(
                "'{interface}' is no name for an interface: 1 to 15 letters and digits"
            ));
        }
        let address = address
            .parse()
            .map_err(|_| format!("'{address}' is not an IPv4 address"))?;
        Ok(Place {
            namespace: namespace.to_owned(),
            interface: interface.to_owned(),
            address,
        })
    }

    /// Move the calling thread to the namespace.
    pub fn enter(&self) -> io::Result<()> {
        let file = File::open(&self.namespace)?;
        // SAFETY: setns takes a descriptor and a constant.
        check(unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) })?;
        Ok(())
    }

    /// Create the interface in the thread's namespace, with its address, and bring it up.
    pub fn open(&self) -> io::Result<File> {
        let tun = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")?;
        let mut request = self.request();
        request.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI) as libc::c_short;
        ioctl(tun.as_raw_fd(), libc::TUNSETIFF as _, &mut request)?;
        let control = control()?;
        self.set(&control, libc::SIOCSIFMTU as _, |r| {
            r.ifr_ifru.ifru_mtu = MTU
        })?;
        self.set(&control, libc::SIOCSIFTXQLEN as _, |r| {
            r.ifr_ifru.ifru_metric = WAITING_PACKETS
        })?;
        self.set(&control, libc::SIOCSIFADDR as _, |r| {
            r.ifr_ifru.ifru_addr = address(self.address)
        })?;
        let mask = Ipv4Addr::from(u32::MAX << (32 - PREFIX));
        self.set(&control, libc::SIOCSIFNETMASK as _, |r| {
            r.ifr_ifru.ifru_netmask = address(mask)
        })?;
        self.up(&control, &self.interface)?;
        self.up(&control, "lo")?;
        Ok(tun)
    }

    fn up(&self, control: &OwnedFd, name: &str) -> io::Result<()> {
        let mut request = named(name);
        ioctl(control.as_raw_fd(), libc::SIOCGIFFLAGS as _, &mut request)?;
        // SAFETY: the kernel has just written the flags.
        let flags = unsafe { request.ifr_ifru.ifru_flags };
        request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
        ioctl(control.as_raw_fd(), libc::SIOCSIFFLAGS as _, &mut request)
    }

    fn set(
        &self,
        control: &OwnedFd,
        what: u64,
        change: impl Fn(&mut libc::ifreq),
    ) -> io::Result<()> {
        let mut request = self.request();
        change(&mut request);
        ioctl(control.as_raw_fd(), what, &mut request)
    }

    fn request(&self) -> libc::ifreq {
        named(&self.interface)
    }
}

fn named(name: &str) -> libc::ifreq {
    // SAFETY: an ifreq of zeros is valid: numbers and arrays only.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request
        .ifr_name
        .iter_mut()
        .zip(name.bytes().take(libc::IFNAMSIZ - 1))
    {
        *to = from as libc::c_char;
    }
    request
}

fn address(ip: Ipv4Addr) -> libc::sockaddr {
    let mut data = [0; 14];
    for (to, from) in data[2..6].iter_mut().zip(ip.octets()) {
        *to = from as libc::c_char;
    }
    libc::sockaddr {
        sa_family: libc::AF_INET as libc::sa_family_t,
        sa_data: data,
    }
}

fn control() -> io::Result<OwnedFd> {
    // SAFETY: socket returns a new descriptor, which is owned from here on, or -1.
    let fd =
        check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: as above.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn ioctl(fd: RawFd, what: u64, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: every request here takes a pointer to an ifreq, which is valid during the call.
    check(unsafe { libc::ioctl(fd, what as _, request as *mut libc::ifreq) })?;
    Ok(())
}

pub fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_three_words() {
        let place = Place::parse("/proc/1/ns/net,link0,10.0.0.1").unwrap();
        assert_eq!(place.interface, "link0");
        assert_eq!(place.address, Ipv4Addr::new(10, 0, 0, 1));
        for wrong in [
            "",
            "a,b",
            "a,b,c",
            "a,sixteen-letters-,10.0.0.1",
            "a,,10.0.0.1",
            "a,b c,10.0.0.1",
        ] {
            assert!(Place::parse(wrong).is_err(), "{wrong}");
        }
    }
}
