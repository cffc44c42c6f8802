# A digest would be surer than this tag: docker build --build-arg NODE_IMAGE=node:24.21.0-bookworm-slim@sha256:…
# (docs/how-to/containers.md says how to find it).
ARG NODE_IMAGE=node:24.21.0-bookworm-slim
FROM ${NODE_IMAGE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc tsconfig.json tsconfig.build.json ./
# The compiler itself is an optional package of its platform; pruning below takes the optional ones away.
RUN npm ci --ignore-scripts --include=dev
COPY src src
COPY plugins plugins
RUN npm run build && npm prune --omit=dev --omit=optional --ignore-scripts

FROM ${NODE_IMAGE}
# A configuration that names no mode is production's: no sandbox, no embedded database, no stack traces.
ENV NODE_ENV=production BOLTGATE_MODE=production HOST=0.0.0.0 PORT=8080 BOLTGATE_DATA=/data
WORKDIR /app
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY package.json gateway.yaml ./
# What comes with the package is a trial; here the environment decides.
RUN sed -i '/^mode: development/d' gateway.yaml && ! grep -q '^mode:' gateway.yaml
COPY src/app/cli/boltgate.mjs src/app/cli/boltgate.mjs
RUN mkdir /data && chown 10001:10001 /data
USER 10001:10001
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + (process.env.PORT || 8080) + '/ready').then(r => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# A smaller young generation than Node's keeps 24 MB; one of 4 has requests that wait for a database outlive it.
ENTRYPOINT ["node", "--disable-sigusr1", "--max-semi-space-size=8", "src/app/cli/boltgate.mjs"]
CMD ["start"]
