package io.kvtier.bench.gpu;

import io.kvtier.layout.BlockOrder;
import io.kvtier.layout.IndexRange;
import io.kvtier.layout.KvLayout;
import io.kvtier.layout.KvPart;
import io.kvtier.layout.TensorShape;
import io.kvtier.protocol.Status;
import io.kvtier.tiers.gpu.Calibration;
import io.kvtier.tiers.gpu.Copy;
import io.kvtier.tiers.gpu.CopyDirection;
import io.kvtier.tiers.gpu.CopyEngine;
import io.kvtier.tiers.gpu.CopyOptions;
import io.kvtier.tiers.gpu.CopyStrategy;
import io.kvtier.tiers.gpu.CudaDriver;
import io.kvtier.tiers.gpu.DeviceRegion;
import io.kvtier.tiers.gpu.DeviceRegionSpec;
import io.kvtier.tiers.gpu.DeviceRegionSpec.TensorPlace;
import io.kvtier.tiers.gpu.Gpu;
import io.kvtier.tiers.gpu.GpuDriver;
import io.kvtier.tiers.gpu.GpuEvent;
import io.kvtier.tiers.gpu.GpuException;
import io.kvtier.tiers.gpu.GpuProbe;
import io.kvtier.tiers.gpu.IpcHandle;
import io.kvtier.tiers.gpu.RegionResult;
import io.kvtier.tiers.gpu.StrategyTable;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.RandomAccessFile;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * The daemon's side of {@code scripts/gpu-check}: opens the tensors of the process that started it,
 * and copies and measures as it is told. One command a line on standard input, a verb and {@code
 * name=value} words; each is answered by rows, if it measures, and a last line that begins with ok,
 * refused or failed.
 */
public final class GpuCheck {
  private final Gpu gpu;
  private final GpuDriver driver;
  private final Arena arena = Arena.ofShared();
  private final Map<String, DeviceRegion> regions = new HashMap<>();
  private MemorySegment host = MemorySegment.NULL;
  private long hostAddress;

  /** Both ways between a device and the host. */
  private static final List<CopyDirection> LINK_WAYS =
      List.of(CopyDirection.OFFLOAD, CopyDirection.ONBOARD);

  private final Map<CopyDirection, CopyEngine> engines = new EnumMap<>(CopyDirection.class);
  private @Nullable Flood flood;

  private GpuCheck(GpuDriver driver, Gpu gpu) {
    this.driver = driver;
    this.gpu = gpu;
  }

  /**
   * Serves until the input ends.
   *
   * @param args the UUID of the GPU
   */
  public static void main(String[] args) throws IOException {
    switch (CudaDriver.probe()) {
      case GpuProbe.NoGpu none -> say("failed " + none);
      case GpuProbe.Found(GpuDriver driver) -> {
        Gpu gpu =
            driver.open(
                driver.devices().stream()
                    .filter(device -> args.length == 0 || device.isNamed(args[0]))
                    .findFirst()
                    .orElseThrow());
        say("ok " + driver.version() + ", " + gpu.device());
        new GpuCheck(driver, gpu).serve();
      }
    }
  }

  private void serve() throws IOException {
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      String[] words = line.strip().split(" ", -1);
      Map<String, String> values = new HashMap<>();
      for (int i = 1; i < words.length; i++) {
        int equals = words[i].indexOf('=');
        values.put(words[i].substring(0, equals), words[i].substring(equals + 1));
      }
      try {
        say(obey(words[0], new Words(values)));
      } catch (GpuException | IllegalArgumentException | IllegalStateException e) {
        say("failed " + e);
      }
    }
  }

  private String obey(String verb, Words words) throws IOException {
    return switch (verb) {
      case "host" -> mapHost(words);
      case "register" -> register(words);
      case "unregister" -> unregister(words);
      case "calibrate" -> calibrate();
      case "use" -> use(words);
      case "copy" -> copy(words);
      case "exchange" -> exchange(words);
      case "limits" -> limits(words);
      case "throughput" -> throughput(words);
      case "latency" -> latency(words);
      case "flood" -> {
        startFlood(words);
        yield "ok";
      }
      case "stop" -> stopFlood("flood");
      case "own" -> "ok " + gpu.share(gpu.allocate(1 << 20));
      default -> "failed unknown command " + verb;
    };
  }

  private String mapHost(Words words) throws IOException {
    try (RandomAccessFile file = new RandomAccessFile(words.text("path"), "rw");
        FileChannel channel = file.getChannel()) {
      host = channel.map(FileChannel.MapMode.READ_WRITE, 0, channel.size(), arena);
    }
    long start = System.nanoTime();
    hostAddress = gpu.register(host);
    row(
        "register_ms_per_gib",
        (System.nanoTime() - start) / 1e6 / (host.byteSize() / 0x1p30),
        "ms");
    return "ok";
  }

  private String register(Words words) {
    List<KvPart> parts = new ArrayList<>();
    for (String part : words.text("parts").split(";", -1)) {
      String[] fields = part.split(":", -1);
      parts.add(
          new KvPart(
              fields[0],
              new TensorShape(
                  fields[1], longs(fields[2]), longs(fields[3]), Integer.parseInt(fields[4])),
              Integer.parseInt(fields[5]),
              Integer.parseInt(fields[6])));
    }
    List<TensorPlace> tensors = new ArrayList<>();
    for (String tensor : words.text("tensors").split(",", -1)) {
      String[] fields = tensor.split("[+]", -1);
      tensors.add(new TensorPlace(IpcHandle.parse(fields[0]), Long.parseLong(fields[1])));
    }
    KvLayout layout =
        new KvLayout(
            words.number("layers"),
            words.number("blocks"),
            words.number("tokens"),
            BlockOrder.parse(words.text("order")),
            parts);
    return switch (DeviceRegion.open(
        driver, new DeviceRegionSpec(words.text("device"), layout, tensors))) {
      case RegionResult.Refused(String reason) -> "refused " + reason;
      case RegionResult.Opened(DeviceRegion region) -> {
        regions.put(words.text("id"), region);
        yield "ok " + layout.blockBytes();
      }
    };
  }

  private static List<Long> longs(String text) {
    List<Long> numbers = new ArrayList<>();
    for (String number : text.split(",", -1)) {
      numbers.add(Long.valueOf(number));
    }
    return numbers;
  }

  private String unregister(Words words) {
    DeviceRegion region = regions.remove(words.text("id"));
    if (region == null) {
      return "failed no region " + words.text("id");
    }
    region.close();
    return "ok";
  }

  private CopyEngine engine(CopyDirection direction) {
    CopyEngine engine = engines.get(direction);
    if (engine == null) {
      throw new IllegalArgumentException("no engines: send use first");
    }
    return engine;
  }

  /** Rows of what each strategy measured, and which was chosen. */
  private String calibrate() {
    for (CopyEngine engine : engines.values()) {
      long start = System.nanoTime();
      StrategyTable table = Calibration.calibrate(gpu, engine, StrategyTable.USUALLY_ENOUGH);
      String prefix = "calibration_" + lower(engine.direction());
      row(prefix + "_ms", (System.nanoTime() - start) / 1e6, "ms");
      for (StrategyTable.Measured measured : table.measured()) {
        measured
            .bytesPerNs()
            .forEach((strategy, rate) ->
                row(
                    String.format(
                        Locale.ROOT,
                        "%s_%dKiB_in_runs_of_%dKiB_%s%s",
                        prefix,
                        measured.copyBytes() >> 10,
                        measured.runBytes() >> 10,
                        lower(strategy),
                        strategy == measured.best(StrategyTable.USUALLY_ENOUGH) ? "_chosen" : ""),
                    rate,
                    "GB/s"));
      }
    }
    return "ok";
  }

  /** Makes the engines anew: with a strategy, or as calibrated; with other options, where given. */
  private String use(Words words) {
    engines.values().forEach(CopyEngine::close);
    engines.clear();
    CopyOptions usual = CopyOptions.DEFAULT;
    CopyOptions options =
        new CopyOptions(
            words.number("slots", usual.slots()),
            words.number("slotBytes", usual.slotBytes()),
            usual.slotRuns(),
            words.number("stagingBlocks", usual.stagingBlocks()),
            usual.encodingBlocks(),
            words.number("writeBlocks", usual.writeBlocks()),
            words.number("readBlocks", usual.readBlocks()),
            usual.depth());
    String strategy = words.text("strategy", "CALIBRATED");
    boolean calibrated = strategy.equals("CALIBRATED");
    StrategyTable table =
        StrategyTable.only(calibrated ? CopyStrategy.STAGED : CopyStrategy.valueOf(strategy));
    for (CopyDirection direction : LINK_WAYS) {
      CopyEngine engine = new CopyEngine(gpu, direction, options, table);
      engines.put(direction, engine);
      if (calibrated) {
        double enough = Double.parseDouble(words.text("enough", "0.97"));
        StrategyTable ignored = Calibration.calibrate(gpu, engine, enough);
      }
    }
    return "ok";
  }

  private Workload workload(Words words, int seed) {
    return new Workload(
        region(words), hostAddress, host.byteSize(), seed, words.number("park", 1) != 0);
  }

  private DeviceRegion region(Words words) {
    return region(words.text("region"));
  }

  private DeviceRegion region(String id) {
    DeviceRegion region = regions.get(id);
    if (region == null) {
      throw new IllegalArgumentException("no region " + id);
    }
    return region;
  }

  private String copy(Words words) {
    DeviceRegion region = region(words);
    List<Long> blocks = longs(words.text("blocks"));
    List<Long> offsets = longs(words.text("offsets"));
    @Nullable GpuEvent after =
        words.values().containsKey("after")
            ? gpu.openEvent(IpcHandle.parse(words.text("after")))
            : null;
    String result =
        Workload.copyAll(
            engine(CopyDirection.valueOf(words.text("direction"))),
            region,
            blocks,
            offsets.stream().map(offset -> hostAddress + offset).toList(),
            span(words.text("layers")),
            span(words.text("heads")),
            after);
    if (after != null) {
      gpu.destroy(after);
    }
    return result;
  }

  /** Whole blocks of several regions, put and got at the same time. */
  private String exchange(Words words) {
    Map<CopyDirection, String> names =
        Map.of(CopyDirection.OFFLOAD, "put", CopyDirection.ONBOARD, "get");
    int[] unfinished = new int[1];
    int[] failed = new int[1];
    names.forEach((direction, name) -> {
      if (words.text(name + "regions").isEmpty()) {
        return;
      }
      String[] ids = words.text(name + "regions").split(",", -1);
      List<Long> blocks = longs(words.text(name + "blocks"));
      List<Long> offsets = longs(words.text(name + "offsets"));
      for (int i = 0; i < ids.length; i++) {
        DeviceRegion region = region(ids[i]);
        Copy copy = new Copy();
        region.addRuns(
            Math.toIntExact(blocks.get(i)),
            IndexRange.all(region.layout().layers()),
            IndexRange.all(region.layout().heads()),
            hostAddress + offsets.get(i),
            copy.runs);
        unfinished[0] += engine(direction).submit(copy) ? 1 : 0;
      }
    });
    while (unfinished[0] > 0) {
      engines
          .values()
          .forEach(engine ->
              engine.poll(copy -> {
                unfinished[0]--;
                failed[0] += copy.status == Status.OK ? 0 : 1;
              }));
    }
    return failed[0] == 0 ? "ok" : "failed " + failed[0] + " copies";
  }

  private static IndexRange span(String text) {
    String[] ends = text.split("-", -1);
    return new IndexRange(Integer.parseInt(ends[0]), Integer.parseInt(ends[1]));
  }

  private String limits(Words words) {
    LinkLimits limits = LinkLimits.measure(gpu, hostAddress, host.byteSize());
    String suffix = words.text("suffix", "");
    row("link_offload" + suffix, limits.offload(), "GB/s");
    row("link_onboard" + suffix, limits.onboard(), "GB/s");
    row("link_both" + suffix, limits.both(), "GB/s");
    return "ok";
  }

  private String throughput(Words words) {
    startFlood(words);
    LockSupport.parkNanos(words.number("ms", 500) * 1_000_000L);
    return stopFlood(words.text("name"));
  }

  private String latency(Words words) {
    double[] us =
        workload(words, 1)
            .latencies(
                engine(CopyDirection.valueOf(words.text("direction"))), words.number("count"));
    row(words.text("name") + "_p50", us[us.length / 2], "us");
    row(words.text("name") + "_p99", us[us.length * 99 / 100], "us");
    return "ok";
  }

  private void startFlood(Words words) {
    Flood started = new Flood();
    for (CopyDirection direction : LINK_WAYS) {
      if (words.text("mode").equals("BOTH") || words.text("mode").equals(direction.name())) {
        int seed = direction == CopyDirection.OFFLOAD ? 1 : 2;
        started.start(workload(words, seed), engine(direction));
      }
    }
    flood = started;
  }

  private String stopFlood(String name) {
    Flood running = flood;
    flood = null;
    if (running == null) {
      return "failed no copies are under way";
    }
    Workload.Result result = running.stop();
    row(name, result.gigabytesPerS(), "GB/s");
    row(name + "_cpu", result.cpuSecondsPerGigabyte() * 1e3, "ms/GB");
    return result.problem();
  }

  private static void row(String name, double value, String unit) {
    say(String.format(Locale.ROOT, "row %s %.6g %s", name, value, unit));
  }

  private static String lower(Enum<?> constant) {
    return constant.name().toLowerCase(Locale.ROOT);
  }

  private static void say(String line) {
    System.out.println(line);
    System.out.flush();
  }

  /** The {@code name=value} words of a command. */
  private record Words(Map<String, String> values) {
    String text(String name) {
      String value = values.get(name);
      if (value == null) {
        throw new IllegalArgumentException("the command lacks " + name + "=");
      }
      return value;
    }

    String text(String name, String otherwise) {
      return values.getOrDefault(name, otherwise);
    }

    int number(String name) {
      return Integer.parseInt(text(name));
    }

    int number(String name, int otherwise) {
      return values.containsKey(name) ? number(name) : otherwise;
    }
  }
}
