//! Whatever is wrong is an error that names it; nothing panics.

mod common;
use common::*;
use vkattn::sys::{vkattn_kernel, vkattn_trait, vkattn_trait_name};
use vkattn::{AttentionDesc, BorrowedDevice, Context, ErrorKind, Options, Role, Tensor, Type};

#[track_caller]
fn expect(error: vkattn::Error, kind: ErrorKind, words: &str) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.message().contains(words), "'{error}', expected '{words}' in it");
}

#[test]
fn tensors() {
    expect(failure(Tensor::new(Type::F32, &[])), ErrorKind::InvalidArgument, "0 dimensions, expected 1 to 4");
    expect(failure(Tensor::new(Type::F32, &[1; 5])), ErrorKind::InvalidArgument, "5 dimensions, expected 1 to 4");
    let tensor = Tensor::new(Type::F32, &[2, 3]).unwrap();
    expect(failure(tensor.with_strides(&[1])), ErrorKind::InvalidArgument, "strides: 1, expected one for each of 2");
    assert_eq!(tensor.bytes(), 24);
}

#[test]
fn descriptions() {
    let context = context();
    let plan = |desc: AttentionDesc| failure(context.plan(&desc));
    let absent = plan(AttentionDesc::default());
    assert_eq!((absent.kind(), absent.member()), (ErrorKind::InvalidArgument, "query"));
    let heads = plan(desc(&Problem { query_heads: 3, kv_heads: 2, ..SMALL }));
    expect(heads, ErrorKind::InvalidArgument, "3");
    let mut sizes = desc(&SMALL);
    sizes.value.shape[2] += 1;
    let sizes = plan(sizes);
    assert_eq!(
        (sizes.kind(), sizes.member().split('.').next()),
        (ErrorKind::InvalidArgument, Some("value")),
        "{sizes}"
    );
    expect(plan(desc(&Problem { head_dim: 577, ..SMALL })), ErrorKind::InvalidArgument, "577");
    let mut number = desc(&SMALL);
    number.query.type_.0 = 4711;
    expect(plan(number), ErrorKind::InvalidArgument, "query");
    let unserved = AttentionDesc { kernel: vkattn_kernel::VKATTN_KERNEL_COOPMAT2, ..desc(&SMALL) };
    expect(plan(unserved), ErrorKind::Unsupported, "coopmat2");
    let dangling = AttentionDesc { variant: 0x10 as *mut _, ..desc(&SMALL) };
    expect(plan(dangling), ErrorKind::InvalidArgument, "variant: a pointer, expected null");
}

#[test]
fn bindings() -> vkattn::Result<()> {
    let context = context();
    let plan = context.plan(&desc(&SMALL))?;
    let large = context.buffer(1 << 16)?;
    let output = context.buffer(1 << 16)?;
    let small = context.buffer(16)?;
    let three = [large.bind(Role::QUERY), large.bind(Role::KEY), large.bind(Role::VALUE)];
    let with = |last: &[vkattn::Binding]| failure(plan.run(&[&three[..], last].concat()));
    expect(failure(plan.run(&[])), ErrorKind::InvalidArgument, "query");
    expect(with(&[]), ErrorKind::InvalidArgument, "output");
    expect(with(&[output.bind(Role::QUERY)]), ErrorKind::InvalidArgument, "query");
    expect(with(&[output.bind(Role::OUTPUT), output.bind(Role::SINKS)]), ErrorKind::InvalidArgument, "sinks");
    expect(with(&[small.bind(Role::OUTPUT)]), ErrorKind::InvalidArgument, "output");
    expect(with(&[output.bind_from(Role::OUTPUT, 4)]), ErrorKind::InvalidArgument, "output");
    expect(with(&[output.bind_from(Role::OUTPUT, 1 << 20)]), ErrorKind::InvalidArgument, "output");
    let unknown = Role::from(vkattn::sys::vkattn_role(4711));
    expect(with(&[output.bind(unknown)]), ErrorKind::InvalidArgument, "4711");
    let other = common::context();
    let elsewhere = other.buffer(1 << 16)?;
    let error = with(&[elsewhere.bind(Role::OUTPUT)]);
    assert_eq!(error.member(), "output");
    expect(error, ErrorKind::InvalidArgument, "a buffer of another context");
    plan.run(&[&three[..], &[output.bind(Role::OUTPUT)]].concat())?; // nothing of that has harmed it
    Ok(())
}

#[test]
fn buffers() -> vkattn::Result<()> {
    let context = context();
    let buffer = context.buffer(16)?;
    expect(failure(buffer.write(8, &[0u8; 9])), ErrorKind::InvalidArgument, "16");
    expect(failure(buffer.read(u64::MAX, &mut [0u8; 1])), ErrorKind::InvalidArgument, "16");
    let beyond = failure(context.buffer(u64::MAX / 2));
    assert!(
        matches!(beyond.kind(), ErrorKind::OutOfDeviceMemory | ErrorKind::InvalidArgument | ErrorKind::Unsupported),
        "{beyond:?}"
    );
    let nothing = context.buffer(0)?;
    nothing.write::<f32>(0, &[])?;
    assert_eq!(nothing.to_vec::<f32>()?, Vec::<f32>::new());
    assert_eq!(context.buffer(7)?.to_vec::<u32>()?.len(), 1);
    Ok(())
}

#[test]
fn devices() {
    let make = |device: &str| failure(Context::new(Options { device: device.into(), ..Default::default() }));
    expect(make("no such device"), ErrorKind::NoDevice, "no such device");
    expect(make("99"), ErrorKind::NoDevice, "99");
    expect(make("zero\0byte"), ErrorKind::InvalidArgument, "without a zero byte");
    let traits = vec![vkattn_trait { name: vkattn_trait_name(4711), ..Default::default() }];
    expect(failure(Context::new(Options { traits, ..Default::default() })), ErrorKind::InvalidArgument, "4711");
    let crash_journal = Some("/no/such/folder/journal".into());
    let journal = failure(Context::new(Options { crash_journal, ..Default::default() }));
    expect(journal, ErrorKind::InvalidArgument, "/no/such/folder/journal");
}

#[test]
fn damaged_saved_data_are_ignored() {
    let (told, on_message) = collector();
    let options = Options { saved_data: b"vkattn, or so".to_vec(), on_message: Some(on_message), ..Default::default() };
    Context::new(options).unwrap();
    assert_eq!(told.lock().unwrap().len(), 1, "{told:?}");
}

#[test]
fn a_borrowed_device_of_nulls() -> Result<(), Box<dyn std::error::Error>> {
    let app = Application::new(None)?;
    let whole = app.borrowed();
    let borrow = |device: BorrowedDevice| failure(unsafe { Context::borrow_device(&device, Default::default()) });
    expect(borrow(BorrowedDevice { queue: ash::vk::Queue::null(), ..whole }), ErrorKind::InvalidArgument, "queue");
    let physical_device = ash::vk::PhysicalDevice::null();
    expect(borrow(BorrowedDevice { physical_device, ..whole }), ErrorKind::InvalidArgument, "physical_device");
    expect(borrow(BorrowedDevice { api_version: 0, ..whole }), ErrorKind::InvalidArgument, "api_version");
    let addresses = BorrowedDevice { buffers_have_addresses: true, ..whole };
    expect(borrow(addresses), ErrorKind::InvalidArgument, "buffers_have_addresses");

    // What is missing when recording: a pool, without push descriptors; nothing is recorded, and the command buffer goes on.
    let context = unsafe { Context::borrow_device(&whole, Default::default())? };
    let plan = context.plan(&desc(&SMALL))?;
    let buffer = context.buffer(1 << 16)?;
    let bound = [Role::QUERY, Role::KEY, Role::VALUE, Role::OUTPUT].map(|role| buffer.bind(role));
    assert!(plan.requirements()?.descriptor_sets > 0);
    let null = ash::vk::DescriptorPool::null();
    let recorded = app.run(|commands| unsafe { plan.record(commands, &bound, null) })?;
    expect(failure(recorded), ErrorKind::InvalidArgument, "descriptor_pool");
    let recorded = unsafe { plan.record(ash::vk::CommandBuffer::null(), &bound, null) };
    expect(failure(recorded), ErrorKind::InvalidArgument, "command_buffer");
    Ok(())
}

/// In a process of its own, whose loader finds no driver.
#[test]
fn no_driver() {
    if std::env::var_os("VKATTN_TEST_NO_DRIVER").is_none() {
        let done = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "no_driver"])
            .env("VKATTN_TEST_NO_DRIVER", "1")
            .env("VK_DRIVER_FILES", "/no/such/driver.json")
            .env("VK_ICD_FILENAMES", "/no/such/driver.json")
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
        return;
    }
    let error = failure(Context::new(Default::default()));
    assert!(matches!(error.kind(), ErrorKind::NoVulkan | ErrorKind::NoDevice), "{error:?}");
    match vkattn::devices() {
        Ok(none) => assert_eq!(none.len(), 0),
        Err(error) => assert_eq!(error.kind(), ErrorKind::NoVulkan, "{error}"),
    }
}
